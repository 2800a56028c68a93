package dispatcher

import (
	"bytes"
	"context"
	"runtime"
	"strconv"
)

// within tells whether ctx is that of a handler or of a call of DeadLetter of
// d, or made from it, whose message has not been settled yet.
func (d *Dispatcher[M]) within(ctx context.Context) bool {
	s, ok := ctx.Value(scopeKey{}).(*scope)
	return ok && s.host.owner == any(d) && s.phase.Load() != attemptOver
}

// Nested reports whether a caller with ctx would wait for itself if it waited for
// d: because ctx is that of a handler or of a call of DeadLetter, or because d
// calls handlers and callbacks on the goroutine, whatever ctx. Where it is true,
// what waits for d gives [ErrNested]. It takes a microsecond or two, and is for
// those who wait for d in their own ways.
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

// enlist notes that the calling goroutine calls handlers or callbacks, until
// the function returned is called.
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

// goroutineID returns the number of the calling goroutine, which the runtime
// gives only in the first line of a stack: "goroutine 18 [running]:". Nothing
// but the refusal of calls that would hang depends on it.
func goroutineID() uint64 {
	var buf [64]byte
	line := buf[:runtime.Stack(buf[:], false)]
	digits, _, _ := bytes.Cut(bytes.TrimPrefix(line, []byte("goroutine ")), []byte(" "))
	id, _ := strconv.ParseUint(string(digits), 10, 64)
	return id
}

// contain calls f on a goroutine of its own, so that what f does to its
// goroutine, a panic or runtime.Goexit, is an error for the caller.
func (d *Dispatcher[M]) contain(f func() error) error {
	result := make(chan error, 1)
	go func() {
		err := ErrGoexit
		defer func() { result <- err }()
		defer d.enlist()()
		defer recoverAs(&err)
		err = f()
	}()
	return <-result
}
