package conductor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// child is a process that the conductor has started.
type child struct {
	name    string
	command *exec.Cmd
	leash   io.WriteCloser // the process ends when it is closed
	joined  time.Time
	left    string        // how it was made to leave; "" while it is to stay
	gone    time.Time     // when it had ended after that
	done    chan struct{} // closed at the end of the process
	err     error         // of the process, once done is closed
}

// start runs the program once more, as another process.
func (c Config) start(stderr io.Writer, as, name string, home []int) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	homes := make([]string, len(home))
	for i, partition := range home {
		homes[i] = strconv.Itoa(partition)
	}
	p := &child{name: name, joined: time.Now(), done: make(chan struct{})}
	args := append([]string{"-leashed", "-as", as, "-name", name, "-db", c.Site.DB, "-amqp", c.Site.AMQP, "-prefix", c.Site.Prefix,
		"-queues", strconv.Itoa(c.Site.Queues), "-home", strings.Join(homes, ",")}, c.Flags...)
	p.command = exec.Command(self, args...)
	p.command.Stderr = stderr
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the terminal interrupts the conductor only
	if p.leash, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.err = p.command.Wait()
		close(p.done)
	}()
	return p, nil
}

// stopLimit is how long a process may take to finish what it has begun.
const stopLimit = time.Minute

// How processes leave.
const (
	killed  = "killed"
	stopped = "stopped"
	stayed  = "stayed" // to the end
)

// stop lets the process finish what it has begun and waits for its end.
func (c *child) stop(how string) error {
	c.left = how
	_ = c.command.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-c.done:
		c.gone = time.Now()
	case <-time.After(stopLimit):
		return errors.Join(fmt.Errorf("%s does not end", c.name), c.kill())
	}
	if c.err != nil {
		return fmt.Errorf("%s: %w", c.name, c.err)
	}
	return nil
}

// kill ends the process at once, as a crash does.
func (c *child) kill() error {
	c.left = killed
	err := c.command.Process.Kill()
	<-c.done
	c.gone = time.Now()
	return err
}

// fault returns an error if the process has ended though it was to stay.
func (c *child) fault() error {
	select {
	case <-c.done:
		if c.left == "" {
			return fmt.Errorf("%s has ended by itself: %w", c.name, errors.Join(c.err, errUnasked))
		}
	default:
	}
	return nil
}

var errUnasked = errors.New("nobody had asked it to")

// syncWriter is a writer for several processes.
type syncWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *syncWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}
