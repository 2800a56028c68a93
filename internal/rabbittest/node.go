// Package rabbittest starts RabbitMQ nodes for tests: real ones, on free ports of
// the loopback interface, with their data in a temporary folder.
//
// A node takes four to ten seconds to start, so the tests of a package share one
// and have queues of their own in it, by [Name]:
//
//	var node = sync.OnceValues(func() (*rabbittest.Node, error) { return rabbittest.New() })
package rabbittest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/internal/loopback"
)

const (
	bootLimit = 5 * time.Minute  // a start takes 3 to 13 seconds
	stopLimit = 30 * time.Second // a stop takes 2 to 8 seconds
)

// Node is a RabbitMQ node. Its methods may be called concurrently.
type Node struct {
	bin, dir string
	ports    *loopback.Claim // of AMQP, of the Erlang distribution and of epmd
	keeper   *exec.Cmd
	replies  io.Reader

	mu struct {
		sync.Mutex
		leash io.WriteCloser // of the keeper; nil once the node is closed
		pid   int            // of the node that runs, or ran last
	}
}

// Start starts a node that ends with the test; see [New]. It fails the test if
// RabbitMQ is not installed.
func Start(t testing.TB, settings ...string) *Node {
	t.Helper()
	n, err := New(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// New starts a node and returns when it accepts connections; Close ends it. It is
// for a TestMain. Settings are lines of rabbitmq.conf, such as
// "consumer_timeout = 5000".
func New(settings ...string) (_ *Node, err error) {
	n := &Node{}
	if n.bin, err = find(); err != nil {
		return nil, err
	}
	if n.ports, err = loopback.New(); err != nil {
		return nil, err
	}
	if n.dir, err = os.MkdirTemp("", "rabbittest"); err != nil {
		return nil, errors.Join(err, n.ports.Close())
	}
	err = n.configure(settings)
	if err == nil {
		err = n.keep()
	}
	if err != nil {
		return nil, errors.Join(err, n.ports.Close(), os.RemoveAll(n.dir))
	}
	if err := n.Restart(); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// find returns the folder of RabbitMQ's own scripts. Debian has wrappers on the
// PATH, which root cannot use for a folder of its own.
func find() (string, error) {
	const debian = "/usr/lib/rabbitmq/bin/rabbitmq-server"
	if _, err := os.Stat(debian); err == nil {
		return filepath.Dir(debian), nil
	}
	path, err := exec.LookPath("rabbitmq-server")
	if err != nil {
		return "", errors.New("rabbittest: there is no RabbitMQ: install it, as Debian's package rabbitmq-server for example")
	}
	return filepath.Dir(path), nil
}

// URL returns the address for clients; it stays the same when the node is
// restarted.
func (n *Node) URL() string { return url(n.addr()) }

func url(addr string) string { return fmt.Sprintf("amqp://guest:guest@%s/", addr) }

func (n *Node) addr() string { return n.ports.Addr(0) }

// Dial opens a connection that is closed with the test.
func (n *Node) Dial(t testing.TB) *amqp.Connection {
	t.Helper()
	c, err := amqp.Dial(n.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

var names atomic.Int64

// Name returns a name for a queue or an exchange that no other test has, not
// even the same one when it is run again.
func Name(t interface{ Name() string }) string {
	return fmt.Sprintf("%.200s-%d", t.Name(), names.Add(1))
}

// Restart starts the node again after Kill or Stop, with the same data and port. It
// returns when the node accepts connections.
func (n *Node) Restart() (err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.mu.leash == nil:
		return errClosed
	case runs(n.mu.pid):
		return errors.New("rabbittest: the node runs already")
	}
	if n.mu.pid, err = n.launchLocked(); err != nil {
		return err
	}
	for end := time.Now().Add(bootLimit); ; {
		c, err := amqp.DialConfig(n.URL(), amqp.Config{Dial: amqp.DefaultDial(5 * time.Second)})
		if err == nil {
			return c.Close()
		}
		if !runs(n.mu.pid) {
			return fmt.Errorf("rabbittest: the node has ended: %s", n.log())
		}
		if time.Now().After(end) {
			return fmt.Errorf("rabbittest: the node does not answer: %w: %s", err, n.log())
		}
		<-time.After(50 * time.Millisecond)
	}
}

// Kill ends the node at once with kill -9, as a crash does, and returns when it has
// ended. See Sync for recent declarations.
func (n *Node) Kill() error { return n.end(syscall.SIGKILL) }

// Stop shuts the node down properly and returns when it has ended.
func (n *Node) Stop() error { return n.end(syscall.SIGTERM) }

// Freeze suspends the node, like a machine that hangs: connections stay open, and
// nothing is answered until Thaw. Do not call Stop on a frozen node.
func (n *Node) Freeze() error { return n.signal(syscall.SIGSTOP) }

// Thaw resumes the node after Freeze.
func (n *Node) Thaw() error { return n.signal(syscall.SIGCONT) }

func (n *Node) signal(signal syscall.Signal) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !runs(n.mu.pid) {
		return errNotRunning
	}
	return syscall.Kill(n.mu.pid, signal)
}

func (n *Node) end(signal syscall.Signal) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !runs(n.mu.pid) {
		return errNotRunning
	}
	if err := syscall.Kill(n.mu.pid, signal); err != nil {
		return err
	}
	for end := time.Now().Add(stopLimit); runs(n.mu.pid); {
		if time.Now().After(end) {
			return fmt.Errorf("rabbittest: the node does not end: %s", n.log())
		}
		<-time.After(time.Millisecond)
	}
	return nil
}

// Close ends the node, if it runs, and removes its data; other processes started by
// Erlang end a moment later by themselves. A second call does nothing.
func (n *Node) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.leash == nil {
		return nil
	}
	err := errors.Join(n.mu.leash.Close(), n.keeper.Wait(), n.ports.Close())
	n.mu.leash, n.mu.pid = nil, 0
	return err
}

var (
	errClosed     = errors.New("rabbittest: the node is closed")
	errNotRunning = errors.New("rabbittest: the node does not run")
)
