package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// story is the state of one scenario; see TestScenarios for its language.
type story struct {
	t      *testing.T
	d      *disp
	jobs   map[string]*job
	names  map[uint64]string
	orders map[string]chan order // to the handler of a message
	held   map[string]func(error)

	mu     sync.Mutex
	events []event
}

// order tells a handler what to do: release keys and go on, or return err.
type order struct {
	release []lockkeys.Key
	panics  bool
	hold    bool
	err     error
}

var errBoom = errors.New("boom")

func (s *story) do(command string, args []string) []string {
	if command == "new" {
		require.Nil(s.t, s.d, "reset first")
		s.open(args)
		return nil
	}
	require.NotNil(s.t, s.d, "new first")
	switch command {
	case "submit":
		return s.submit(args[0], args[1:])
	case "finish":
		return s.order(args[0], order{})
	case "fail":
		if len(args) > 1 && args[1] == "for-good" {
			return s.order(args[0], order{err: dispatcher.Permanent(errBoom)})
		}
		return s.order(args[0], order{err: errBoom})
	case "hold":
		return s.order(args[0], order{hold: true})
	case "panic":
		return s.order(args[0], order{panics: true})
	case "widen":
		return s.order(args[0], order{err: dispatcher.Widen(requests(args[1:]...)...)})
	case "release":
		var keys []lockkeys.Key
		for _, r := range requests(args[1:]...) {
			keys = append(keys, r.Key)
		}
		return s.order(args[0], order{release: keys})
	case "wait":
		d, err := time.ParseDuration(args[0])
		require.NoError(s.t, err)
		time.Sleep(d)
	case "resume", "skip", "drop":
		decide := map[string]func(context.Context, uint64) error{"resume": s.d.Resume, "skip": s.d.Skip, "drop": s.d.Drop}
		if err := decide[command](s.t.Context(), s.id(args[0])); err != nil {
			return []string{err.Error()}
		}
	case "parked":
		return s.parked()
	case "state":
		return s.state()
	case "drain":
		return s.drain()
	case "shutdown":
		return s.shutdown(args)
	case "reset":
		require.NoError(s.t, s.d.Close())
		s.d = nil
	default:
		s.t.Fatalf("no command %q", command)
	}
	return nil
}

func (s *story) open(args []string) {
	cfg := config{
		Keys: jobKeys, Workers: 2,
		Backoff:  dispatcher.Backoff{Jitter: -1},
		Observer: s.observe,
	}
	batch := false
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		n, _ := strconv.Atoi(value)
		switch name {
		case "workers":
			cfg.Workers = n
		case "policy":
			if value == "head-only" {
				cfg.Policy = dispatcher.HeadOnly()
			}
		case "window":
			cfg.Policy = dispatcher.LookAhead(n)
		case "attempts":
			cfg.MaxAttempts = n
		case "max-parked":
			cfg.MaxParked = n
		case "failure":
			cfg.Failure = map[string]dispatcher.FailurePolicy{"park": dispatcher.Park, "stop": dispatcher.Stop}[value]
		case "batch":
			batch, cfg.MaxBatch = true, n
		default:
			s.t.Fatalf("no setting %q", name)
		}
	}
	if batch {
		cfg.BatchHandler = s.handleBatch
	} else {
		cfg.Handler = s.handle
	}
	var err error
	s.d, err = dispatcher.New(cfg)
	require.NoError(s.t, err)
	s.names = make(map[uint64]string)
}

func (s *story) close() {
	if s.d == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
	defer cancel()
	_, _ = s.d.Shutdown(ctx)
	synctest.Wait()
}

func (s *story) observe(e event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names[e.ID] = e.Message.name
	s.events = append(s.events, e)
}

// handle waits for orders, or for the end of its context.
func (s *story) handle(ctx context.Context, j *job) error {
	for {
		select {
		case o := <-s.orders[j.name]:
			switch {
			case o.panics:
				panic(errBoom)
			case o.hold:
				finish, err := dispatcher.Hold(ctx)
				s.mu.Lock()
				defer s.mu.Unlock()
				s.held[j.name] = finish
				return err
			case o.release == nil:
				return o.err
			}
			if err := dispatcher.Release(ctx, o.release...); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *story) handleBatch(ctx context.Context, batch []*job) []error {
	for i, j := range batch {
		if err := s.handle(ctx, j); err != nil {
			return append(make([]error, i), dispatcher.FailAll(err, len(batch)-i)...)
		}
	}
	return nil
}

func (s *story) submit(name string, keys []string) []string {
	j := newJob(name, nil, keys...)
	s.jobs[name], s.orders[name] = j, make(chan order)
	if err := s.d.Submit(s.t.Context(), j); err != nil {
		return []string{err.Error()}
	}
	return nil
}

func (s *story) order(name string, o order) []string {
	synctest.Wait()
	s.mu.Lock()
	finish := s.held[name]
	delete(s.held, name)
	s.mu.Unlock()
	if finish != nil && !o.hold {
		finish(o.err)
		return nil
	}
	select {
	case s.orders[name] <- o:
		return nil
	default:
		return []string{name + " does not run"}
	}
}

// happened tells of the events since it was last called.
func (s *story) happened() (lines []string) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		line := e.Kind.String() + " " + e.Message.name
		switch e.Kind {
		case dispatcher.Blocked:
			line += fmt.Sprintf(" by %s at %v", s.names[e.Blocker], e.Key)
		case dispatcher.Released:
			line += " " + e.Key.String()
		case dispatcher.Widened, dispatcher.Started, dispatcher.Queued, dispatcher.Resumed:
		}
		if e.Attempt > 1 && e.Kind == dispatcher.Started {
			line += fmt.Sprintf(", attempt %d", e.Attempt)
		}
		if e.Err != nil {
			line += ": " + firstLine(e.Err)
		}
		lines = append(lines, line)
	}
	s.events = nil
	return lines
}

func firstLine(err error) string {
	var cause *dispatcher.HandlerError
	if errors.As(err, &cause) && !errors.Is(err, dispatcher.ErrSkipped) {
		err = cause.Err
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

func (s *story) id(name string) uint64 {
	for id, n := range s.names {
		if n == name {
			return id
		}
	}
	return 0
}

func (s *story) parked() []string {
	lines := []string{}
	for _, p := range s.d.Parked() {
		lines = append(lines, fmt.Sprintf("%s keeps %v after %d attempts, %d behind it", p.Message.name, p.Claim, p.Attempts, p.Behind))
	}
	return lines
}

func (s *story) state() (lines []string) {
	snapshot := s.d.Snapshot()
	for _, m := range snapshot.Messages {
		line := fmt.Sprintf("%s %v %v", m.Message.name, m.State, m.Claim)
		if m.Blocker != 0 {
			line += fmt.Sprintf(" behind %s at %v", s.names[m.Blocker], m.BlockedBy)
		}
		if m.Stalled {
			line += " (stalled)"
		}
		lines = append(lines, line)
	}
	if snapshot.Queued > 0 {
		lines = append(lines, fmt.Sprintf("%d not considered", snapshot.Queued))
	}
	return lines
}

func (s *story) drain() []string {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Nanosecond)
	defer cancel()
	if err := s.d.Drain(ctx); err != nil {
		return []string{"not drained: " + err.Error()}
	}
	return []string{"drained"}
}

func (s *story) shutdown(args []string) (lines []string) {
	limit := time.Second
	if len(args) > 0 {
		var err error
		limit, err = time.ParseDuration(args[0])
		require.NoError(s.t, err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	begun := time.Now()
	r, err := s.d.Shutdown(ctx)
	lines = append(lines, fmt.Sprintf("shut down after %v", time.Since(begun)))
	for _, l := range r.Unfinished {
		lines = append(lines, fmt.Sprintf("unfinished %s, %v, %d attempts", l.Message.name, l.State, l.Attempts))
	}
	for _, l := range r.Running {
		lines = append(lines, fmt.Sprintf("%v %s", l.State, l.Message.name))
	}
	if err != nil {
		lines = append(lines, err.Error())
	}
	return lines
}
