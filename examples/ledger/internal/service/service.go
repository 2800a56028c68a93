// Package service runs messages on the book: each once, in parallel, in the
// order of their numbers.
//
// It is what a user of Interlock writes. The way of a message:
//
//	file, HTTP ─▶ Submit, Do (offer.go): a number on each of its streams, if its sender gave it
//	queue ─▶ Receiver            │       none; or a command, if it comes over HTTP and has an ID
//	                             ▼
//	            ordering.Sequencer[*book.Message]
//	              decode: the message that an event has, once for each        message.go
//	              keys:   the accounts that it locks
//	                             ▼
//	              handle: read, check, commit the effect with the numbers     handler.go
//	                             ▼
//	            ended: what became of it, for its sender and the summary      outcome.go
//
// Beside that, ids.go knows the messages that have an ID, finish.go ends the
// service, and watch.go tells the audit what it has to check.
package service

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/inspect"
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
	// not called before the first of them has come. Default: 0.
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
	// others, so that they can never run, from several goroutines.
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
	// Measure, if set, is told how long messages took.
	Measure func(dispatcher.Measurement)
	// Record says that what happened to the last messages is kept, for a page.
	Record bool
	// Touched is for tests: it is told of all that messages read and write, see
	// [dispatcher.Touch].
	Touched func(ctx context.Context, a dispatcher.Access)
}

// Service runs messages on the book.
type Service struct {
	cfg       Config
	sequencer *ordering.Sequencer[*book.Message]
	started   chan struct{} // closed once sequencer is set; what is left from before may run earlier
	clock     atomic.Uint64 // ticks for the audit
	counts    counts
	end       ending
	marks     marks
	recorder  *inspect.Recorder[ordering.Job[*book.Message]] // nil without Config.Record

	// turn is held to number a message and offer it.
	turn struct {
		sync.Mutex
		streams   lockkeys.Key         // below which messages are numbered
		numbering *numbering.Numbering // nil before the first of them
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
	s := &Service{cfg: cfg, started: make(chan struct{})}
	if cfg.Record {
		s.recorder = inspect.NewRecorder(0, nameOf)
	}
	var together dispatcher.Together
	if store, ok := cfg.Store.(*store.Database); ok && cfg.Latency == 0 { // a handler that waits keeps the database
		together = store.Together
	}
	var err error
	s.sequencer, err = ordering.New(ctx, ordering.Config[*book.Message]{
		Store:   cfg.Store.Numbers(),
		Decode:  decode,
		Keys:    keys,
		Handler: s.handle,
		// Messages on one account share a transaction.
		Together: together,
		// A message that the book rejects is done, and no failure.
		Failure:    dispatcher.Stop,
		FailureFor: failureFor,
		// A handler here cannot end the process; whoever kills it does so from outside.
		MaxCrashes: -1,
		DeadLetter: s.gaveUp,
		GapTimeout: cfg.GapTimeout,
		Replayer:   cfg.Replayer,
		Logger:     cfg.Logger,
		Dispatcher: dispatcher.Config[ordering.Job[*book.Message]]{
			Workers:    cfg.Workers,
			Policy:     cfg.Policy,
			MaxPending: cmp.Or(cfg.MaxPending, defaultMaxPending),
			Observer:   s.watch,
			Touched:    cfg.Touched,
			Measure:    cfg.Measure,
			Name:       nameOf,
			Logger:     cfg.Logger,
		},
	})
	close(s.started)
	if err != nil {
		return nil, err
	}
	if err := s.letGo(ctx); err != nil { // what an earlier program has left
		return nil, errors.Join(err, s.sequencer.Close())
	}
	return s, nil
}
