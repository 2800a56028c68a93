package httpauth

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
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
		index := -1
		s, err := Parse(c.header)
		if err == nil {
			index, err = s.Verify(c.request, []Key{other, key}, now, time.Minute)
		}
		assert.Equal(t, c.want, err, c.name)
		if err == nil {
			assert.Equal(t, s.id, []Key{other, key}[index].ID, c.name)
		}
	}
}

// TestStrangersLearnNothing: whoever cannot sign is answered the same for a key
// that there is and for one that there is not, whatever his clock says.
func TestStrangersLearnNothing(t *testing.T) {
	for _, at := range []time.Time{now, now.Add(time.Hour), time.Unix(0, 0)} {
		for _, id := range []string{key.ID, "none", ""} {
			s, err := Parse(fmt.Sprintf("%s key=%s,time=%d,signature=%064x", Scheme, id, at.Unix(), 7))
			require.NoError(t, err)
			_, err = s.Verify(get, []Key{key}, now, time.Minute)
			assert.Equal(t, ErrSignature, err, id)
		}
	}
	_, err := Parse(Key{ID: strings.Repeat("a", 65), Secret: key.Secret}.Authorization(get, now))
	assert.Equal(t, ErrUnsigned, err, "no key has such an ID")
}

// A bound may be as large as there are numbers.
func TestSlotsWithoutABound(t *testing.T) {
	for _, share := range []float64{0.5, 0.75, 1} {
		s := NewSlots(8, math.MaxInt64, share)
		assert.True(t, s.Take(0, 1<<40))
		assert.True(t, s.Take(0, 1<<40))
		assert.True(t, s.Grow(0, 1<<40))
		assert.True(t, s.Take(1, 0))
	}
	s := NewSlots(math.MaxInt, 10, 1)
	assert.True(t, s.Take(0, 1))
	assert.True(t, s.Take(0, 1))
}

func TestSlots(t *testing.T) {
	s := NewSlots(4, 100, 0.75)
	assert.True(t, s.Take(0, 10))
	assert.True(t, s.Take(0, 10))
	assert.True(t, s.Take(0, 10))
	assert.False(t, s.Take(0, 10), "three of four are a key's share")
	assert.True(t, s.Take(1, 10), "and leave one for another")
	assert.False(t, s.Take(2, 10), "all are taken")
	assert.Equal(t, 4, s.Open())
	s.Release(0, 10)
	assert.False(t, s.Take(0, 56), "75 bytes are a key's share")
	assert.True(t, s.Take(0, 55))
	s.Release(0, 10)
	assert.False(t, s.Take(2, 26), "100 bytes are all")
	assert.True(t, s.Take(2, 25))
	for key, sizes := range [][]int64{{10, 55}, {10}, {25}} {
		for _, size := range sizes {
			s.Release(key, size)
		}
	}
	assert.True(t, s.Take(0, 1000), "alone it may be larger")
	assert.False(t, s.Take(1, 1))
	assert.True(t, s.Grow(0, 1000), "and grow")
	s.Release(0, 2000)

	assert.True(t, s.Take(0, 40))
	assert.True(t, s.Take(0, 30))
	assert.False(t, s.Grow(0, 6), "75 bytes are a key's share")
	assert.True(t, s.Grow(0, 5))
	assert.True(t, s.Take(1, 10))
	assert.False(t, s.Grow(1, 16), "100 bytes are all")
	assert.True(t, s.Grow(1, 15))
	s.Release(0, 45)
	s.Release(0, 30)
	s.Release(1, 25)
	assert.Zero(t, s.Open())
}

// TestRefusals: what everybody can cause does not fill a log.
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := NewRefusals(slog.New(slog.NewTextHandler(&log, nil)), "refused")
		request := &http.Request{RemoteAddr: "192.0.2.1:7", URL: &url.URL{RawQuery: strings.Repeat("x", 1<<20)}}
		for range 1000 {
			r.Add(request, ErrUnsigned)
		}
		time.Sleep(refusalEvery)
		r.Add(request, ErrSignature)
		assert.Equal(t, 2, strings.Count(log.String(), "\n"))
		assert.Contains(t, log.String(), "more_since_last=999 total=1001")
		assert.Contains(t, log.String(), "192.0.2.1")
		assert.Less(t, log.Len(), 1000)
		assert.EqualValues(t, 1001, r.Count())
	})
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
		s, err := Parse(header)
		if err != nil {
			return
		}
		if _, err := s.Verify(get, []Key{key}, now, 0); err == nil {
			assert.Equal(t, key.ID, s.id)
			assert.Equal(t, now.Unix(), s.time)
			assert.Equal(t, key.sign(get, now.Unix()), s.bytes)
		}
	})
}
