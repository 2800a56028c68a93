package httpauth

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	key = Key{ID: "2026", Secret: []byte("fedcba9876543210fedcba9876543210")}
	now = time.Unix(1_800_000_000, 0)
	get = Request{Protocol: "test-1", Method: "GET", Content: "a=1"}
)

func TestVerify(t *testing.T) {
	other := Key{ID: "2025", Secret: []byte("0123456789abcdef0123456789abcdef")}
	forged := Key{ID: key.ID, Secret: other.Secret}
	for _, c := range []struct {
		name, header string
		request      Request
		want         error
	}{
		{"right", key.Authorization(get, now), get, nil},
		{"another key that is known", other.Authorization(get, now), get, nil},
		{"unknown key", Key{ID: "2024", Secret: key.Secret}.Authorization(get, now), get, ErrSignature},
		{"wrong secret", forged.Authorization(get, now), get, ErrSignature},
		{"another protocol", key.Authorization(get, now), Request{"test-2", "GET", "a=1"}, ErrSignature},
		{"another method", key.Authorization(get, now), Request{"test-1", "POST", "a=1"}, ErrSignature},
		{"another content", key.Authorization(get, now), Request{"test-1", "GET", "a=2"}, ErrSignature},
		{"a little late", key.Authorization(get, now.Add(-time.Minute)), get, nil},
		{"late", key.Authorization(get, now.Add(-time.Minute-time.Second)), get, ErrClock},
		{"early", key.Authorization(get, now.Add(time.Minute+time.Second)), get, ErrClock},
		{"unsigned", "", get, ErrUnsigned},
		{"another scheme", "Bearer abc", get, ErrUnsigned},
		{"cut", key.Authorization(get, now)[:80], get, ErrUnsigned},
		{"more parameters", key.Authorization(get, now) + ",a=1", get, ErrUnsigned},
		{"no hex", Scheme + " key=2026,time=1,signature=" + strings.Repeat("x", 64), get, ErrUnsigned},
		{"no time", Scheme + " key=2026,time=now,signature=" + strings.Repeat("0", 64), get, ErrUnsigned},
		{"names missing", Scheme + " 2026,1," + strings.Repeat("0", 64), get, ErrUnsigned},
	} {
		s, err := Parse(c.header, []Key{other, key})
		if err == nil {
			err = s.Verify(c.request, now, time.Minute)
		}
		assert.Equal(t, c.want, err, c.name)
	}
}

func TestValidate(t *testing.T) {
	require.NoError(t, key.Validate())
	require.NoError(t, Key{"a-Z_0.9", key.Secret}.Validate())
	for _, id := range []string{"", "a b", "ä", "a,b", strings.Repeat("a", 65)} {
		assert.ErrorContains(t, Key{id, key.Secret}.Validate(), "key ID", id)
	}
	assert.ErrorContains(t, Key{"a", key.Secret[1:]}.Validate(), "the secret is 31 bytes: draw at least 32")
}

// What is read as a signature is of the right form, and only the right one is
// accepted.
func FuzzParse(f *testing.F) {
	right := key.Authorization(get, now)
	f.Add(right)
	f.Add(right[:len(right)-1])
	f.Add(Scheme + " key=,time=,signature=")
	f.Fuzz(func(t *testing.T, header string) {
		s, err := Parse(header, []Key{key})
		if err == nil && s.Verify(get, now, 0) == nil {
			assert.Equal(t, key.ID, s.key.ID)
			assert.Equal(t, now.Unix(), s.time)
			assert.Equal(t, key.sign(get, now.Unix()), s.bytes)
		}
	})
}
