package contain_test

import (
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/internal/contain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBoom = errors.New("boom")

// textError has a text, which a nil pointer to one has not.
type textError struct{ text string }

func (e *textError) Error() string { return e.text }

func recovered(f func() error) (err error) {
	defer contain.Recover(&err)
	return f()
}

// told calls f in the way that the package's doc shows, and returns what is told.
func told(f func() error) error {
	result := make(chan error, 1)
	go func() {
		err := contain.ErrGoexit
		defer func() { result <- err }()
		defer contain.Recover(&err)
		err = f()
	}()
	return <-result
}

func TestWhatAFunctionDoesIsItsError(t *testing.T) {
	for name, call := range map[string]func(func() error) error{"Recover": recovered, "Apart": contain.Apart, "the way of the doc": told} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, call(func() error { return nil }))
			require.Equal(t, errBoom, call(func() error { return errBoom }))

			err := call(func() error { panic(errBoom) })
			require.ErrorIs(t, err, errBoom)
			var panicked *contain.PanicError
			require.ErrorAs(t, err, &panicked)
			assert.Equal(t, errBoom, panicked.Value)
			assert.Contains(t, string(panicked.Stack), "contain_test.go")
			assert.ErrorContains(t, err, "panic: boom\n")

			require.ErrorAs(t, call(func() error { panic("text") }), &panicked)
			assert.NoError(t, panicked.Unwrap())

			var nothing *textError
			for _, unreadable := range []error{nothing, errors.Join(errBoom, nothing)} {
				err = call(func() error { return unreadable })
				require.ErrorAs(t, err, &panicked)
				assert.ErrorContains(t, err, "nil pointer dereference")
				assert.Contains(t, string(panicked.Stack), "textError")
			}

			if name != "Recover" {
				require.ErrorIs(t, call(func() error { runtime.Goexit(); return nil }), contain.ErrGoexit)
			}
		})
	}
}

// Through Recover, runtime.Goexit ends the goroutine.
func TestRecoverLetsGoexitThrough(t *testing.T) {
	returned := false
	var group sync.WaitGroup
	group.Go(func() {
		_ = recovered(func() error { runtime.Goexit(); return nil })
		returned = true
	})
	group.Wait()
	assert.False(t, returned)
}

func TestRecoverAllocatesNothing(t *testing.T) {
	assert.Zero(t, testing.AllocsPerRun(100, func() { _ = recovered(func() error { return nil }) }))
}

func TestPersist(t *testing.T) {
	calls, done := 0, make(chan struct{})
	go contain.Persist(func() {
		if calls++; calls < 3 {
			runtime.Goexit()
		}
		close(done)
	})
	<-done
	assert.Equal(t, 3, calls)
}

// Each calls what follows a call that panics or ends its goroutine, in order.
func TestEach(t *testing.T) {
	var called []int
	var errs []error
	contain.Each(5, func(i int) {
		called = append(called, i)
		switch i {
		case 1:
			panic(errBoom)
		case 2, 4:
			runtime.Goexit()
		}
	}, func(err error) { errs = append(errs, err) })
	assert.Equal(t, []int{0, 1, 2, 3, 4}, called)
	require.Len(t, errs, 3)
	assert.ErrorIs(t, errs[0], errBoom)
	assert.ErrorIs(t, errs[1], contain.ErrGoexit)
	assert.ErrorIs(t, errs[2], contain.ErrGoexit)
	contain.Each(0, func(int) { t.Error("called") }, func(error) { t.Error("failed") })
}

func TestText(t *testing.T) {
	var nothing *textError
	assert.Equal(t, "boom", contain.Text(errBoom))
	assert.Contains(t, contain.Text(nothing), "nil pointer dereference")
}
