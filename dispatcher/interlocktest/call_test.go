package interlocktest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// recorder is a test that only keeps what is said against it.
type recorder struct {
	testing.TB
	cleanups []func()
	errors   []string
}

func (r *recorder) Cleanup(f func())  { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Error(args ...any) { r.errors = append(r.errors, fmt.Sprint(args...)) }

// end ends the test, and returns what was said.
func (r *recorder) end() string {
	for i := range r.cleanups {
		r.cleanups[len(r.cleanups)-1-i]()
	}
	return strings.Join(r.errors, "\n")
}

// TestCall: a handler called by itself has a real message around it.
func TestCall(t *testing.T) {
	a, b := lockkeys.Request{Key: account("1")}, lockkeys.Request{Key: account("2"), Mode: lockkeys.Shared}
	call := NewCall(t, a, b)
	ctx := call.Context()
	require.NoError(t, dispatcher.Holds(ctx, a, b))
	info, ok := dispatcher.InfoFrom(ctx)
	require.True(t, ok)
	require.Equal(t, dispatcher.Info{ID: 1, Attempt: 1}, info)
	dispatcher.Touch(ctx, b.Key, lockkeys.Shared)
	require.NoError(t, dispatcher.Release(ctx, b.Key))
	require.Equal(t, []lockkeys.Key{b.Key}, call.Released())
	require.ErrorIs(t, dispatcher.Holds(ctx, b), dispatcher.ErrNotHeld)
	require.Len(t, call.Touched(), 1)
	require.Equal(t, b.Key, call.Touched()[0].Key)
	require.False(t, call.Return(errOverdrawn))
	require.False(t, call.Return(nil), "the first counts")
	require.ErrorIs(t, call.Wait(t.Context()), errOverdrawn)
	require.ErrorIs(t, dispatcher.Holds(ctx, a), dispatcher.ErrNoHandler)
	require.Equal(t, []lockkeys.Key{b.Key}, call.Released())
}

// TestCallHeld: a message that is held ends when finish is called.
func TestCallHeld(t *testing.T) {
	call := NewCall(t, lockkeys.Request{Key: account("1")})
	finish, err := dispatcher.Hold(call.Context())
	require.NoError(t, err)
	require.True(t, call.Return(nil))
	require.NoError(t, dispatcher.Holds(call.Context(), lockkeys.Request{Key: account("1")}))
	finish(errOverdrawn)
	require.ErrorIs(t, call.Wait(context.Background()), errOverdrawn)
}

// TestStrictCall: as a sequencer, it refuses what would be final before the commit.
func TestStrictCall(t *testing.T) {
	call := NewStrictCall(t, lockkeys.Request{Key: account("1")})
	_, err := dispatcher.Hold(call.Context())
	require.ErrorIs(t, err, dispatcher.ErrStrictLocking)
	require.ErrorIs(t, dispatcher.Release(call.Context(), account("1")), dispatcher.ErrStrictLocking)
}

// TestCallSays: what a handler should not do fails the test.
func TestCallSays(t *testing.T) {
	r := &recorder{TB: t}
	call := NewCall(r, lockkeys.Request{Key: account("1"), Mode: lockkeys.Shared})
	dispatcher.Touch(call.Context(), account("1"), lockkeys.Exclusive)
	said := r.end()
	require.Contains(t, said, "client/42/account/1, touched at ")
	require.Contains(t, said, "call_test.go:")
	require.Contains(t, said, "add claim.Exclusive of client/42/account/1")

	r = &recorder{TB: t}
	call = NewCall(r)
	finish, err := dispatcher.Hold(call.Context())
	require.NoError(t, err)
	require.Contains(t, r.end(), "nobody has called finish")
	finish(nil)
	require.NoError(t, call.Wait(t.Context()))
	require.NoError(t, call.d.Close())
}

// TestTouched: it checks the handlers of any dispatcher, at the end of the test.
func TestTouched(t *testing.T) {
	r := &recorder{TB: t}
	var left context.Context
	d, err := dispatcher.New(dispatcher.Config[int]{
		Keys:    func(m int, claim *lockkeys.Claim) error { claim.Exclusive(account(fmt.Sprint(m))); return nil },
		Touched: Touched(r),
		Handler: func(ctx context.Context, m int) error {
			left = ctx
			dispatcher.TouchData(ctx, "read only", lockkeys.Shared)
			dispatcher.TouchData(ctx, fmt.Sprintf("of %d", m), lockkeys.Exclusive)
			mode := lockkeys.Shared
			if m == 2 {
				mode = lockkeys.Exclusive
			}
			dispatcher.TouchData(ctx, "total", mode)
			return nil
		},
	})
	require.NoError(t, err)
	for m := range 3 {
		require.NoError(t, d.Do(t.Context(), m))
		require.NoError(t, d.Do(t.Context(), m))
	}
	dispatcher.TouchData(left, "later", lockkeys.Shared)
	require.NoError(t, d.Close())
	said := r.end()
	require.Len(t, r.errors, 2, said)
	require.Contains(t, r.errors[0], `"later" touched at`)
	require.Contains(t, r.errors[0], "by message 6, attempt 1, which was over")
	require.Contains(t, r.errors[1], `"total" read at`)
	require.Contains(t, r.errors[1], `"total" written at`)
	require.Contains(t, r.errors[1], "message 1, attempt 1: [client/42/account/0]")
	require.Contains(t, r.errors[1], "message 5, attempt 1: [client/42/account/2]")
}
