// Package contain calls functions of the library's users, so that a panic or
// runtime.Goexit, as by t.FailNow, becomes an error and does not end the caller.
//
//   - [Recover], deferred, converts a panic to the error of the function that
//     defers it, and likewise an error whose text panics, as that of a nil pointer
//     may. It costs and allocates nothing unless there is a panic or an error.
//     runtime.Goexit still ends the goroutine, as it should if that belongs to the
//     function's caller.
//   - [Readable] does the latter for any error.
//   - [Apart] calls a function on a goroutine of its own, for callers that must
//     survive.
//   - [Each] calls a list of functions like that, one after the other.
//   - [Persist] is for goroutines that serve others for long, such as workers.
//
// A goroutine that must report its outcome, and is not needed afterwards, sets the
// error to [ErrGoexit] beforehand:
//
//	err := contain.ErrGoexit
//	defer func() { tell(err) }()
//	defer contain.Recover(&err)
//	err = f()
package contain

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// ErrGoexit is the error of a function that called runtime.Goexit.
var ErrGoexit = errors.New("runtime.Goexit was called: return an error instead")

// PanicError is the error of a function that panicked.
type PanicError struct {
	Value any    // the argument of panic
	Stack []byte // of the goroutine that panicked
}

// Error includes the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// Unwrap returns the value of the panic if that was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Recover, deferred directly and not within another function, sets *err to a
// [*PanicError] if the function that defers it panics, or if *err.Error() does, which
// is called later where a panic would end the process. Otherwise it does nothing.
func Recover(err *error) {
	if v := recover(); v != nil {
		*err = &PanicError{v, debug.Stack()}
	} else {
		*err = Readable(*err)
	}
}

// Readable returns err, or the [*PanicError] of its method Error: for errors that come in
// another way than as the result of a function.
func Readable(err error) (result error) {
	if err == nil {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			result = &PanicError{v, debug.Stack()}
		}
	}()
	_ = err.Error()
	return err
}

// Text returns the text of an error, or that of the panic of its method Error.
func Text(err error) string { return Readable(err).Error() }

// Apart calls f on a goroutine of its own and returns its error, which is a
// [*PanicError] if it panics, and [ErrGoexit] if it calls runtime.Goexit.
func Apart(f func() error) error {
	result := make(chan error, 1)
	go func() {
		err := ErrGoexit
		defer func() { result <- err }()
		defer Recover(&err)
		err = f()
	}()
	return <-result
}

// Each calls f with the numbers from 0 to n-1, in order, on a goroutine of its own.
// When a call panics or calls runtime.Goexit, failed gets its error, as from
// [Apart], and the next ones follow all the same.
func Each(n int, f func(i int), failed func(err error)) {
	for next := 0; next < n; {
		err := Apart(func() error {
			for next < n {
				i := next
				next++
				f(i)
			}
			return nil
		})
		if err != nil {
			failed(err)
		}
	}
}

// Persist calls f, and again on another goroutine each time f ends its goroutine by
// runtime.Goexit, until f returns. So f must be able to continue where it was. A
// panic of f is not contained.
func Persist(f func()) {
	returned := false
	defer func() {
		if !returned { // or f panics, and the process ends
			go Persist(f)
		}
	}()
	f()
	returned = true
}
