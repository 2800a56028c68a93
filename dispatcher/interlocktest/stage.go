package interlocktest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// stage is where the messages of one call of Dispatch run. It records their history.
type stage[M any] struct {
	turns    *turns
	parallel bool
	checker  *checker
	begun    time.Time
	drained  chan struct{}
	mayFail  bool
	name     func(M) string

	mu       sync.Mutex
	history  *History[M]
	faults   []string
	calls    []*call // in order of their beginning
	running  []*call // by Attempt.Worker; nil where none runs
	messages map[uint64]M
	declared map[uint64]*lockkeys.Claim
	started  map[int][]uint64            // IDs, by the dispatcher's worker, in order
	results  map[[2]uint64]attemptResult // by ID and attempt
}

// call is a call of the handler.
type call struct {
	turns      *turns
	ctx        context.Context
	id         uint64 // of the first message
	attempt    int
	messages   int
	batch      int
	worker     int // as in Attempt
	workerID   int // the dispatcher's
	claim      []lockkeys.Request
	left       []lockkeys.Request
	begin, end Moment
}

type callKey struct{}

type attemptResult struct {
	err    error
	undone bool
}

func newStage[M any](cfg dispatcher.Config[M], r *Round[M], messages []submission[M]) *stage[M] {
	s := &stage[M]{
		turns:    newTurns(r.steps, r.Pause, r.Seed == 0),
		parallel: r.Seed == 0,
		checker:  newChecker(),
		begun:    time.Now(),
		drained:  make(chan struct{}),
		mayFail:  r.MayFail || cfg.DeadLetter != nil,
		name:     cfg.Name,
		history:  &History[M]{Errors: map[uint64]error{}},
		messages: map[uint64]M{},
		declared: map[uint64]*lockkeys.Claim{},
		started:  map[int][]uint64{},
		results:  map[[2]uint64]attemptResult{},
	}
	if len(messages) > 0 {
		s.turns.due = s.begun.Add(messages[0].at)
	}
	return s
}

// config returns the configuration that records what happens.
func (s *stage[M]) config(cfg dispatcher.Config[M], messages int) dispatcher.Config[M] {
	if cfg.Workers == 0 {
		cfg.Workers = max(messages, 2)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	cfg.Backoff.Jitter = -1
	if handler := cfg.Handler; handler != nil {
		cfg.Handler = func(ctx context.Context, m M) error {
			c := s.begin(ctx, 1, 0)
			defer s.endCall(c)
			return handler(c.ctx, m)
		}
	}
	if handler := cfg.BatchHandler; handler != nil {
		batches := 0
		cfg.BatchHandler = func(ctx context.Context, ms []M) []error {
			s.mu.Lock()
			batches++
			batch := batches
			s.mu.Unlock()
			c := s.begin(ctx, len(ms), batch)
			defer s.endCall(c)
			return handler(c.ctx, ms)
		}
	}
	observer := cfg.Observer
	cfg.Observer = func(e dispatcher.Event[M]) {
		s.observe(e)
		if observer != nil {
			observer(e)
		}
	}
	touched := cfg.Touched
	cfg.Touched = func(ctx context.Context, a dispatcher.Access) {
		s.checker.add(a)
		if touched != nil {
			touched(ctx, a)
		}
		Yield(ctx)
	}
	return cfg
}

// submit submits the messages, and waits until all have ended or are parked.
func (s *stage[M]) submit(ctx context.Context, d *dispatcher.Dispatcher[M], messages []submission[M]) {
	defer close(s.drained)
	for _, m := range messages {
		due := s.begun.Add(m.at)
		s.turns.setDue(due)
		time.Sleep(time.Until(due))
		s.turns.take(0)
		if err := d.Submit(ctx, m.m); err != nil {
			s.fault("message %v was refused: %v", m.m, err)
		}
	}
	s.turns.setDue(time.Time{})
	_ = d.Drain(ctx) // its error is that of a dispatcher that stopped, whose cause is told
}

func (s *stage[M]) now() Moment { return Moment{s.turns.tick(), time.Since(s.begun)} }

func (s *stage[M]) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// begin waits for its turn and records the beginning of a call. In a parallel round it
// lets all begin that can, so that they run beside each other.
func (s *stage[M]) begin(ctx context.Context, messages, batch int) *call {
	c := s.record(ctx, messages, batch)
	if s.parallel {
		time.Sleep(s.turns.pause)
	}
	return c
}

func (s *stage[M]) record(ctx context.Context, messages, batch int) *call {
	info, _ := dispatcher.InfoFrom(ctx)
	c := &call{turns: s.turns, id: info.ID, attempt: info.Attempt, messages: messages, batch: batch, workerID: info.Worker}
	c.ctx = context.WithValue(ctx, callKey{}, c)
	s.turns.take(c.id)
	c.claim, _ = dispatcher.ClaimOf(ctx)
	mine := lockkeys.NewClaim(c.claim...)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.running {
		if other == nil {
			continue
		}
		claim, err := dispatcher.ClaimOf(other.ctx)
		if err == nil && mine.Conflicts(lockkeys.NewClaim(claim...)) {
			s.faults = append(s.faults, fmt.Sprintf("message %d %v began while the handler of message %d %v ran", c.id, c.claim, other.id, claim))
		}
	}
	if c.worker = slices.Index(s.running, nil); c.worker < 0 {
		c.worker = len(s.running)
		s.running = append(s.running, nil)
	}
	s.running[c.worker] = c
	s.calls = append(s.calls, c)
	c.begin = s.now()
	return c
}

// endCall records the end of a call, also by a panic.
func (s *stage[M]) endCall(c *call) {
	left, _ := dispatcher.ClaimOf(c.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[c.worker] = nil
	c.left, c.end = left, s.now()
}

func (s *stage[M]) observe(e dispatcher.Event[M]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	attempt := [2]uint64{e.ID, uint64(e.Attempt)}
	switch e.Kind {
	case dispatcher.Queued:
		s.messages[e.ID], s.declared[e.ID] = e.Message, lockkeys.NewClaim(e.Claim...)
	case dispatcher.Started:
		s.started[e.Worker] = append(s.started[e.Worker], e.ID)
	case dispatcher.Undone:
		s.results[attempt] = attemptResult{e.Err, true}
	case dispatcher.Retried:
		s.results[attempt] = attemptResult{err: e.Err}
	case dispatcher.Parked, dispatcher.Halted, dispatcher.Finished:
		s.results[attempt] = attemptResult{err: e.Err}
		if delete(s.history.Errors, e.ID); e.Err != nil {
			s.history.Errors[e.ID] = e.Err
		}
	case dispatcher.Blocked, dispatcher.Widened, dispatcher.Released, dispatcher.Held, dispatcher.HoldEnded, dispatcher.Resumed:
	}
}

// end completes the history, and returns all that is wrong.
func (s *stage[M]) end() (*History[M], []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	attempts := map[[2]uint64]int{} // where they are in the history
	for _, c := range s.calls {
		for _, id := range s.idsLocked(c) {
			m := s.messages[id]
			a := Attempt[M]{ID: id, Message: m, Attempt: c.attempt, Worker: c.worker, Batch: c.batch, Claim: c.claim, Left: c.left, Begin: c.begin, End: c.end}
			if s.name != nil {
				a.Name = s.name(m)
			}
			attempt := [2]uint64{id, uint64(c.attempt)}
			if last, ok := attempts[attempt]; ok { // which did not count, since it comes again
				s.history.Attempts[last].Err, s.history.Attempts[last].Undone = nil, true
			}
			attempts[attempt] = len(s.history.Attempts)
			result := s.results[attempt]
			a.Err, a.Undone = result.err, result.undone
			s.history.Attempts = append(s.history.Attempts, a)
		}
	}
	faults := append(s.faults, s.checker.problems()...)
	if a, b, found := s.history.disorder(s.declared); found {
		faults = append(faults, fmt.Sprintf("conflicting messages did not run in the order of acceptance:\n\t%v\n\t%v", b, a))
	}
	if !s.mayFail {
		for _, id := range sortedKeys(s.history.Errors) {
			faults = append(faults, fmt.Sprintf("message %d failed: %v", id, s.history.Errors[id]))
		}
	}
	return s.history, faults
}

// idsLocked returns the messages of a call: the dispatcher's worker has started them
// one after the other.
func (s *stage[M]) idsLocked(c *call) []uint64 {
	started := s.started[c.workerID]
	i := slices.Index(started, c.id)
	if i < 0 {
		return []uint64{c.id}
	}
	s.started[c.workerID] = started[i+c.messages:]
	return started[i : i+c.messages]
}
