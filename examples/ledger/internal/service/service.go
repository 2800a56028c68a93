// Package service runs messages on the book: each once, in parallel, in the
// order of their numbers.
package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/rabbitmq"
	"github.com/interlock-go/interlock/examples/ledger/internal/audit"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/numbering"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// Config says how to run messages.
type Config struct {
	Store store.Store
	// Input tells apart what messages come from: those without numbers of
	// their own get some that are unique to it, the same ones each time. It is
	// called once, when the first of them has come. Default: 0.
	Input   func() int64
	Workers int
	Policy  dispatcher.Policy
	// Latency is how long each handler waits before it begins, as if for an
	// answer of another service.
	Latency time.Duration
	// Audit is told of all that happens. Required.
	Audit *audit.Audit
	// OnEnd, if set, is called for each message that has ended, from several
	// goroutines.
	OnEnd func()
	// OnRefused, if set, is told of messages whose numbers contradict those of
	// others, so that they can never run.
	OnRefused func(line int, m *book.Message, err error)
	// OnBefore, if set, is told of messages that were done before, from several
	// goroutines: the names of their events, and whether those have the numbers
	// of their senders.
	OnBefore func(event string, own bool, line int, m *book.Message)
	// OnFirst, if set, is called once a message has ended that was not done
	// before, if any were: with when the first one did, and the number of those
	// that were, as far as they are known then.
	OnFirst func(at time.Time, before int)
	// MaxPending bounds the messages that were submitted and have not ended.
	// Default: 8192, which is small enough for progress to mean something.
	MaxPending int
	// GapTimeout is how long a message waits for those with smaller numbers
	// until they are asked for. Default: that of [ordering.Config].
	GapTimeout time.Duration
	// Replayer, if set, is asked for messages that did not come.
	Replayer ordering.Replayer
	// Logger is told of what an operator should know. Default: none.
	Logger *slog.Logger
}

// Service runs messages on the book.
type Service struct {
	cfg       Config
	sequencer *ordering.Sequencer
	clock     atomic.Uint64
	jobs      jobs

	accepted, before, held, refused, revived, unfinished, gone atomic.Int64
	firstEnd                                                   atomic.Pointer[time.Time] // of the first message that was not done before
	goesOn                                                     sync.Once                 // calls OnFirst

	end ending

	// turn is held to number a message and offer it.
	turn struct {
		sync.Mutex
		streams   lockkeys.Key         // below which messages are numbered
		numbering *numbering.Numbering // nil before the first of them
		numbered  uint64
	}
}

const defaultMaxPending = 8192

// Start starts a service.
func Start(ctx context.Context, cfg Config) (*Service, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler) // the audit is told of all
	}
	if cfg.Input == nil {
		cfg.Input = func() int64 { return 0 }
	}
	s := &Service{cfg: cfg}
	s.jobs.mu.of = map[*ordering.Event]*job{}
	// When a message cannot be done, when the disk is full for example, nothing
	// more is tried: those that build on it must not run without it. One that
	// the book refuses is done.
	var err error
	s.sequencer, err = ordering.New(ctx, ordering.Config{
		Store:      cfg.Store.Numbers(),
		Keys:       s.keys,
		Handler:    s.handle,
		FailureFor: func(*ordering.Event, error) ordering.Policy { return ordering.Stop },
		GapTimeout: cfg.GapTimeout,
		Replayer:   cfg.Replayer,
		Logger:     cfg.Logger,
		Dispatcher: dispatcher.Config[ordering.Job]{
			Workers:    cfg.Workers,
			Policy:     cfg.Policy,
			MaxPending: cmp.Or(cfg.MaxPending, defaultMaxPending),
			Observer:   dispatcher.ObserverFunc[ordering.Job](s.observe),
			Logger:     cfg.Logger,
		},
	})
	if err != nil {
		return nil, err
	}
	if err := s.letGo(ctx); err != nil { // what an earlier program has left
		return nil, errors.Join(err, s.sequencer.Close())
	}
	return s, nil
}

// Submit hands over a message, which has been validated, and waits only while
// too many are pending. If it has no numbers of its own it gets some: then the
// order of calls is the order of the messages.
func (s *Service) Submit(ctx context.Context, line int, m *book.Message) error {
	return s.offer(ctx, &job{line: line, message: m})
}

// Do runs a message and waits for its answer, which comes when the effect is
// lasting. When ctx ends first, what becomes of the message is not known.
func (s *Service) Do(ctx context.Context, m *book.Message) (book.Reply, error) {
	j := &job{message: m, done: make(chan struct{})}
	if err := s.offer(ctx, j); err != nil {
		return book.Reply{}, err
	}
	select {
	case <-j.done:
		return j.reply, cmp.Or(j.refused, outcomeError(j.outcome))
	case <-ctx.Done():
		return book.Reply{}, context.Cause(ctx)
	}
}

// Receiver returns what takes messages from a queue, with numbers of their own.
func (s *Service) Receiver() rabbitmq.Receiver { return rabbitmq.Events(s.sequencer) }

// Errors of [Service.Do] for messages that did not run.
var (
	// ErrDone says that the message was done before.
	ErrDone = errors.New("the message was done before")
	// ErrHeld says that the message is kept until those come that its numbers
	// say are before it.
	ErrHeld = errors.New("the message waits for earlier ones")
)

func outcomeError(o ordering.Outcome) error {
	switch o.Result {
	case ordering.Applied:
		return nil
	case ordering.Duplicate:
		return ErrDone
	case ordering.Held:
		return ErrHeld
	}
	return o.Err
}

// offer gives a message to the sequencer, with its own numbers or new ones.
func (s *Service) offer(ctx context.Context, j *job) error {
	payload, err := j.message.Payload()
	if err != nil {
		return err
	}
	if err := j.message.Claim(&j.claim); err != nil {
		return err
	}
	e := &ordering.Event{Type: string(j.message.Op), Positions: j.message.Sequence, Payload: payload}
	s.jobs.add(e, j)
	if len(e.Positions) == 0 {
		err = s.offerNumbered(ctx, e, j)
	} else {
		err = s.sequencer.Offer(ctx, e, s.ended)
	}
	if err != nil {
		s.jobs.remove(e)
		return err
	}
	s.accepted.Add(1)
	return nil
}

// offerNumbered numbers a message and offers it. Once it has its numbers, it
// is offered whatever becomes of ctx: those after it would wait for it.
func (s *Service) offerNumbered(ctx context.Context, e *ordering.Event, j *job) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.Err(); err != nil {
		return err
	}
	if s.turn.numbering == nil {
		streams, err := book.OwnStreams.Child(strconv.FormatInt(s.cfg.Input(), 10))
		if err != nil {
			return err
		}
		s.turn.streams, s.turn.numbering = streams, numbering.New(streams)
	}
	s.turn.numbered++
	e.ID = fmt.Sprintf("%s/%d", s.turn.streams, s.turn.numbered)
	e.Positions = s.turn.numbering.Next(j.claim.Requests())
	err := s.sequencer.Offer(context.WithoutCancel(ctx), e, s.ended)
	if err != nil {
		s.abort(err)
	}
	return err
}

// ended takes what became of a message that was offered.
func (s *Service) ended(e *ordering.Event, o ordering.Outcome) {
	j := s.jobs.get(e)
	j.outcome = o
	ran := j.run.Begin > 0
	switch {
	case o.Result == ordering.Held:
		s.held.Add(1)
	case o.Result == ordering.Refused:
		s.refused.Add(1)
		if s.cfg.OnRefused != nil {
			s.cfg.OnRefused(j.line, j.message, o.Err)
		}
	case o.Result == ordering.Unfinished:
		s.unfinished.Add(1)
		if errors.Is(o.Err, ordering.ErrFenced) {
			s.abort(fmt.Errorf("another program has taken over the database: %w", o.Err))
		}
	case j.lost: // and the other program has done it
		s.before.Add(1)
	case ran:
		s.first()
	default:
		s.before.Add(1)
		if s.cfg.OnBefore != nil {
			s.cfg.OnBefore(e.Name(), inputOf(e) == 0, j.line, j.message)
		}
		s.tellFirst()
	}
	if !ran { // it never came to the handler, so no more will be heard of it
		s.jobs.remove(e)
		s.counted()
	}
	if j.done != nil {
		close(j.done)
	}
}

// first notes that a message has ended that was not done before.
func (s *Service) first() {
	if s.firstEnd.Load() == nil {
		now := time.Now()
		s.firstEnd.CompareAndSwap(nil, &now)
	}
	s.tellFirst()
}

// tellFirst calls OnFirst if it is time. Which is known first, that a message was
// done before or that another one has ended, is up to chance.
func (s *Service) tellFirst() {
	at, before := s.firstEnd.Load(), s.before.Load()
	if at != nil && before > 0 && s.cfg.OnFirst != nil {
		s.goesOn.Do(func() { s.cfg.OnFirst(*at, int(before)) })
	}
}

func (s *Service) counted() {
	if s.cfg.OnEnd != nil {
		s.cfg.OnEnd()
	}
}

// Counts tells apart the messages that did not simply run.
type Counts struct {
	Accepted int // all
	Before   int // that were done before, in an earlier run or as another copy
	Held     int // that wait for messages that did not come
	Refused  int // that can never run for their numbers
	Left     int // that did not run before the end
	Gone     int // held, and given up since they can never run for their numbers
	Revived  int // not accepted here, and run: held earlier, or got by a replay
}

// Counts returns the counts.
func (s *Service) Counts() Counts {
	return Counts{
		Accepted: int(s.accepted.Load()), Before: int(s.before.Load()), Held: int(s.held.Load()),
		Refused: int(s.refused.Load()), Left: int(s.unfinished.Load()), Gone: int(s.gone.Load()), Revived: int(s.revived.Load()),
	}
}
