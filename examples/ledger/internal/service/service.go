// Package service runs messages on the book, in parallel.
package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/examples/ledger/internal/audit"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
	"github.com/interlock-go/interlock/lockkeys"
)

// Config says how to run messages.
type Config struct {
	Store   store.Store
	Workers int
	Policy  dispatcher.Policy
	// Latency is how long each handler waits before it begins, as if for an
	// answer of another service.
	Latency time.Duration
	// Audit is told of all that happens. Required.
	Audit *audit.Audit
	// OnEnd, if set, is called for each message that has ended, from one
	// goroutine.
	OnEnd func()
	// MaxPending bounds the messages that were submitted and have not ended.
	// Default: 8192, which is small enough for progress to mean something.
	MaxPending int
	// Logger is told of what an operator should know. Default: none.
	Logger *slog.Logger
}

// Service runs messages on the book.
type Service struct {
	cfg        Config
	dispatcher *dispatcher.Dispatcher[*job]
	base       uint64 // the journal's last entry before this run
	clock      atomic.Uint64
}

// job is a message on its way, with what its handler leaves.
type job struct {
	line    int
	message *book.Message
	reply   book.Reply
	run     audit.Run
}

const defaultMaxPending = 8192

// Start starts a service.
func Start(ctx context.Context, cfg Config) (*Service, error) {
	last, err := cfg.Store.Last(ctx)
	if err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler) // the audit is told of all
	}
	s := &Service{cfg: cfg, base: last}
	s.dispatcher, err = dispatcher.New(dispatcher.Config[*job]{
		Keys:       func(j *job, claim *lockkeys.Claim) error { return j.message.Claim(claim) },
		Handler:    s.handle,
		Workers:    cfg.Workers,
		Policy:     cfg.Policy,
		MaxPending: cmp.Or(cfg.MaxPending, defaultMaxPending),
		FailureFor: failure,
		Observer:   dispatcher.ObserverFunc[*job](s.observe),
		Logger:     cfg.Logger,
	})
	return s, err
}

// handle does the work of one message: it reads, checks and writes, and knows
// nothing of the others.
func (s *Service) handle(ctx context.Context, j *job) (err error) {
	info, _ := dispatcher.InfoFrom(ctx)
	j.run = audit.Run{Begin: s.clock.Add(1), Start: time.Now(), Worker: info.Worker}
	defer func() { j.run.Stop, j.run.End = time.Now(), s.clock.Add(1) }()
	if err := pause(ctx, s.cfg.Latency); err != nil {
		return err
	}
	tx := book.Begin(ctx, s.cfg.Store, s.base+info.ID, j.message)
	if j.reply, err = book.Apply(tx, j.message); err != nil {
		return err
	}
	return s.cfg.Store.Commit(ctx, tx.Changes())
}

func pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// failure lets the others go on when a message is at fault. When the machinery
// is, when the disk is full for example, nothing more is tried: the messages
// that build on this one must not run without it.
func failure(_ *job, err error) dispatcher.FailurePolicy {
	if book.Refused(err) {
		return dispatcher.DeadLetter
	}
	return dispatcher.Stop
}

func (s *Service) observe(e dispatcher.Event[*job]) {
	switch e.Kind {
	case dispatcher.Blocked:
		s.cfg.Audit.Contention.Blocked(e.ID, e.Key, e.Time)
	case dispatcher.Started:
		s.cfg.Audit.Contention.Started(e.ID, e.Time)
	case dispatcher.Finished:
		j := e.Message
		s.cfg.Audit.Finished(audit.Record{ID: e.ID, Line: j.line, Message: j.message, Reply: j.reply, Err: e.Err, Run: j.run})
		if s.cfg.OnEnd != nil {
			s.cfg.OnEnd()
		}
	}
}

// Submit hands over a message, which has been validated, and waits only while
// too many are pending. The order of calls is the order of arrival.
func (s *Service) Submit(ctx context.Context, line int, m *book.Message) error {
	return s.dispatcher.Submit(ctx, &job{line: line, message: m})
}

// Do runs a message and waits for its answer, which comes when the effect is
// lasting. When ctx ends first, what becomes of the message is not known.
func (s *Service) Do(ctx context.Context, m *book.Message) (book.Reply, error) {
	j := &job{message: m}
	if err := s.dispatcher.Do(ctx, j); err != nil {
		return book.Reply{}, err
	}
	return j.reply, nil
}

// Finish runs what was submitted and ends the service. When ctx ends first,
// the messages that have not begun by then are left, and the error says how
// many.
func (s *Service) Finish(ctx context.Context) error {
	drained := s.dispatcher.Drain(ctx)
	report, err := s.dispatcher.Shutdown(context.WithoutCancel(ctx))
	if n := len(report.Unfinished); n > 0 {
		err = errors.Join(err, fmt.Errorf("messages that were accepted and not run: %d", n))
	}
	return errors.Join(drained, err)
}

// Stopped tells whether the machinery failed, so that nothing runs any more.
func (s *Service) Stopped() bool { return errors.Is(s.dispatcher.Err(), dispatcher.ErrStopped) }

// Accepted is the number of messages that were accepted.
func (s *Service) Accepted() uint64 { return s.dispatcher.Stats().Accepted }
