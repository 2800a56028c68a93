// Package exampletest runs the programs of examples/ for their tests, each as a process
// of its own: the test's own program, whose TestMain is
//
//	func TestMain(m *testing.M) { exampletest.Main(m, main) }
package exampletest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

const (
	env   = "INTERLOCK_EXAMPLE"
	limit = 2 * time.Minute // a program takes a second
)

// Main runs the tests, or in a process of [Start] the example.
func Main(m *testing.M, example func()) {
	if os.Getenv(env) != "" {
		example()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// Program is an example that runs, or has run.
type Program struct {
	t     testing.TB
	cmd   *exec.Cmd
	ended chan struct{}
	err   error  // of its end, once ended is closed
	out   output // standard output
	log   output // standard error
}

// Start starts the example with these arguments. It is killed if it still runs at the
// end of the test.
func Start(t testing.TB, args ...string) *Program {
	t.Helper()
	ctx, kill := context.WithTimeout(context.Background(), limit)
	p := &Program{t: t, cmd: exec.CommandContext(ctx, os.Args[0], args...), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env+"=1")
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.log
	if err := p.cmd.Start(); err != nil {
		kill()
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		p.err = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		kill()
		<-p.ended
	})
	return p
}

// Run starts the example, and returns its standard output when it has ended by itself.
func Run(t testing.TB, args ...string) string {
	t.Helper()
	return Start(t, args...).Wait()
}

// Interrupt sends what Ctrl-C sends.
func (p *Program) Interrupt() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(os.Interrupt))
}

// Kill ends the program at once, as a crash does.
func (p *Program) Kill() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Kill())
	<-p.ended
}

// Wait waits until the program has ended, without an error, and returns its standard
// output.
func (p *Program) Wait() string {
	p.t.Helper()
	<-p.ended
	require.NoError(p.t, p.err, "%s%s", p.out.String(), p.log.String())
	return p.out.String()
}

// Until waits until the standard output is as wanted.
func (p *Program) Until(wanted func(out string) bool) {
	p.t.Helper()
	for !wanted(p.out.String()) {
		select {
		case <-p.ended:
			require.True(p.t, wanted(p.out.String()), "the example has ended (%v): %s%s", p.err, p.out.String(), p.log.String())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Until waits until a condition holds, such as that a program answers.
func Until(t testing.TB, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !holds(); {
		require.True(t, time.Now().Before(end), "it does not come about")
		<-time.After(5 * time.Millisecond)
	}
}

// output keeps what is written.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
