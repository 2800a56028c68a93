package dispatcher

import (
	"bytes"
	"context"
	"runtime"
	"strconv"

	"github.com/interlock-go/interlock/internal/contain"
)

// within reports whether ctx is, or is derived from, the context of a handler
// or of a call of DeadLetter of d whose message has not been settled yet.
func (d *Dispatcher[M]) within(ctx context.Context) bool {
	s, ok := ctx.Value(scopeKey{}).(*scope)
	return ok && s.host.owner == any(d) && s.phase.Load() != attemptOver
}

// Nested reports whether a caller with ctx would wait for itself if it waited
// for d: because ctx is the context of a handler or of a call of DeadLetter,
// or, with any ctx, because d calls handlers and callbacks on this goroutine.
// Then the methods that wait for d return [ErrNested]. Nested is for code that
// waits for d in other ways. It takes a microsecond or two.
func (d *Dispatcher[M]) Nested(ctx context.Context) bool {
	if d.within(ctx) {
		return true
	}
	id := goroutineID()
	d.mu.Lock()
	defer d.mu.Unlock()
	_, own := d.mu.own[id]
	return own
}

// enlist records that the calling goroutine calls handlers or callbacks, until
// leave is called.
func (d *Dispatcher[M]) enlist() (leave func()) {
	id := goroutineID()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.own[id] = struct{}{}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.mu.own, id)
	}
}

// goroutineID returns the number of the calling goroutine, which is available
// only from the first line of a stack trace: "goroutine 18 [running]:". It is
// used only to refuse calls that would hang.
func goroutineID() uint64 {
	var buf [64]byte
	line := buf[:runtime.Stack(buf[:], false)]
	digits, _, _ := bytes.Cut(bytes.TrimPrefix(line, []byte("goroutine ")), []byte(" "))
	id, _ := strconv.ParseUint(string(digits), 10, 64)
	return id
}

// apart calls f on a goroutine of its own, so that a panic or runtime.Goexit in f
// becomes an error for the caller. The goroutine is enlisted meanwhile.
func (d *Dispatcher[M]) apart(f func() error) error {
	return contain.Apart(func() error {
		defer d.enlist()()
		return f()
	})
}
