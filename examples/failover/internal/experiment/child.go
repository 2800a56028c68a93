package experiment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/interlock-go/interlock/examples/failover/internal/feed"
)

// ChildVariable is set in the environment of the processes that the experiment starts: the
// program once more, which then has the role that its standard input says.
const ChildVariable = "INTERLOCK_FAILOVER_CHILD"

// child is one of the experiment's processes.
type child struct {
	role  feed.Role
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *json.Encoder // to it
	log   string        // the file with its log
	ready chan struct{} // closed when it is
	ended chan struct{} // closed when it has ended
	err   error         // of its end
}

// startChild starts a process that has listener, and calls applied for each
// event that it says it has applied.
func startChild(cfg feed.Config, listener *net.TCPListener, applied func(feed.Applied)) (_ *child, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	socket, err := listener.File()
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	c := &child{
		role: cfg.Role, cmd: exec.Command(program), log: filepath.Join(cfg.Dir, string(cfg.Role)+".log"),
		ready: make(chan struct{}), ended: make(chan struct{}),
	}
	logFile, err := os.Create(c.log)
	if err != nil {
		return nil, err
	}
	defer logFile.Close()
	c.cmd.Env = append(os.Environ(), ChildVariable+"=1")
	c.cmd.ExtraFiles = []*os.File{socket}
	c.cmd.Stderr = logFile
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go c.watch(out, applied)
	c.lines = json.NewEncoder(c.in)
	return c, c.lines.Encode(cfg)
}

// watch reads what the process tells until it ends.
func (c *child) watch(out io.Reader, applied func(feed.Applied)) {
	defer close(c.ended)
	decoder := json.NewDecoder(out)
	for {
		var l feed.Line
		if decoder.Decode(&l) != nil {
			break
		}
		if l.Ready {
			close(c.ready)
		}
		if l.Applied != nil {
			applied(*l.Applied)
		}
	}
	if err := c.cmd.Wait(); err != nil {
		text, _ := os.ReadFile(c.log)
		c.err = fmt.Errorf("the %s has ended: %w: %s", c.role, err, bytes.TrimSpace(text[max(0, len(text)-2<<10):]))
	}
}

var errEarly = errors.New("ended too early")

// failed returns why the process has ended, and nil while it runs.
func (c *child) failed() error {
	select {
	case <-c.ended:
		if c.err != nil {
			return c.err
		}
		return fmt.Errorf("the %s: %w", c.role, errEarly)
	default:
		return nil
	}
}

// awaitReady waits until the process is at work.
func (c *child) awaitReady(ctx context.Context) error {
	select {
	case <-c.ready:
		return nil
	case <-c.ended:
		return c.failed()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// send gives an order to a producer.
func (c *child) send(o feed.Order) error {
	if err := c.lines.Encode(o); err != nil {
		<-c.ended // what else could it be
		return c.failed()
	}
	return nil
}

// endBy is how long a process may take to end.
const endBy = 30 * time.Second

// end lets the process end and waits for it.
func (c *child) end() error {
	_ = c.in.Close()
	timer := time.AfterFunc(endBy, c.kill)
	defer timer.Stop()
	<-c.ended
	return c.err
}

// kill ends the process at once, if it runs.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.ended
}
