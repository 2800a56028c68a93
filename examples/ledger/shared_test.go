package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/internal/rabbittest"
)

// What takes seconds to start is started once, by the first test that needs it,
// and is shared by all but those that kill it.
var (
	broker = shared(func() (*rabbittest.Node, error) { return rabbittest.New() }, func(n *rabbittest.Node) { _ = n.Close() })
	server = shared(func() (*pgtest.Server, error) { return pgtest.New(noFsync) }, (*pgtest.Server).Close)
	binary = shared(build, func(path string) { _ = os.RemoveAll(filepath.Dir(path)) })
)

// noFsync is a setting of PostgreSQL: tests kill processes, not the machine, whose
// memory keeps what a server has written.
const noFsync = "fsync=off"

// started has what ends each shared thing that was started.
var started struct {
	sync.Mutex
	ends []func()
}

// shared returns a function that starts something when it is first called, and
// fails the test if that fails.
func shared[T any](start func() (T, error), end func(T)) func(t testing.TB) T {
	once := sync.OnceValues(func() (T, error) {
		value, err := start()
		if err == nil {
			started.Lock()
			defer started.Unlock()
			started.ends = append(started.ends, func() { end(value) })
		}
		return value, err
	})
	return func(t testing.TB) T {
		t.Helper()
		value, err := once()
		require.NoError(t, err)
		return value
	}
}

// endShared ends what was started, the last thing first.
func endShared() {
	for _, end := range slices.Backward(started.ends) {
		end()
	}
}

// build makes the program, without the race detector, and returns its path.
func build() (path string, err error) {
	dir, err := os.MkdirTemp("", "ledger")
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "ledger")
	if text, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		_ = os.RemoveAll(dir)
		return "", fmt.Errorf("%w: %s", err, text)
	}
	return path, nil
}

// hangs is after how long a test that waits counts as hanging.
const hangs = 5 * time.Minute

// requireSoon waits until a condition has no error left.
func requireSoon(t testing.TB, condition func() error) {
	t.Helper()
	for end := time.Now().Add(hangs); ; <-time.After(10 * time.Millisecond) {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			require.NoError(t, err)
		}
	}
}
