package service

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/examples/ledger/internal/audit"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// job is a message on its way, with what its handler leaves.
type job struct {
	line    int
	message *book.Message
	revived bool // it was not offered here
	claim   lockkeys.Claim
	reply   book.Reply
	run     audit.Run
	outcome ordering.Outcome
	done    chan struct{} // closed with the outcome, if someone waits for it
}

// jobs finds the job of an event. An event that was not offered here, since it
// was held or comes from a replay, gets one when its keys are asked for.
type jobs struct {
	mu struct {
		sync.Mutex
		of map[*ordering.Event]*job
	}
}

func (l *jobs) add(e *ordering.Event, j *job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.of[e] = j
}

func (l *jobs) get(e *ordering.Event) *job {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.of[e]
}

func (l *jobs) remove(e *ordering.Event) *job {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.mu.of[e]
	delete(l.mu.of, e)
	return j
}

// keys gives the lock keys of an event.
func (s *Service) keys(e *ordering.Event, claim *lockkeys.Claim) error {
	j := s.jobs.get(e)
	if j == nil {
		m, err := book.Decode(e.Payload)
		if err != nil {
			return err
		}
		j = &job{message: m, revived: true}
		if err := m.Claim(&j.claim); err != nil {
			return err
		}
		s.jobs.add(e, j)
	}
	claim.Copy(&j.claim)
	return nil
}

// handle does the work of one message: it reads, checks and writes, and knows
// nothing of the others.
func (s *Service) handle(ctx context.Context, oj ordering.Job) (err error) {
	j := s.jobs.get(oj.Event)
	info, _ := dispatcher.InfoFrom(ctx)
	j.run = audit.Run{Begin: s.clock.Add(1), Start: time.Now(), Worker: info.Worker}
	defer func() { j.run.Stop, j.run.End = time.Now(), s.clock.Add(1) }()
	if err := pause(ctx, s.cfg.Latency); err != nil {
		return err
	}
	tx := book.Begin(ctx, s.cfg.Store)
	if j.reply, err = book.Apply(tx, j.message); err != nil {
		if book.Refused(err) {
			return dispatcher.Permanent(err)
		}
		return err
	}
	err = s.cfg.Store.Commit(ctx, oj, tx.Changes())
	if errors.Is(err, ordering.ErrFenced) {
		j.outcome.Result = ordering.Unfinished // of one that was not offered here, nobody else says so
	}
	return err
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

// observe tells the audit what the dispatcher did.
func (s *Service) observe(e dispatcher.Event[ordering.Job]) {
	switch e.Kind {
	case dispatcher.Blocked:
		s.cfg.Audit.Contention.Blocked(e.ID, e.Key, e.Time)
	case dispatcher.Started:
		s.cfg.Audit.Contention.Started(e.ID, e.Time)
	case dispatcher.Finished:
		j := s.jobs.remove(e.Message.Event)
		if j == nil || j.run.Begin == 0 || j.outcome.Result == ordering.Unfinished {
			s.cfg.Audit.Void(e.ID) // it did not run, or its effect was refused
			return
		}
		if j.revived {
			s.revived.Add(1)
		}
		s.cfg.Audit.Finished(audit.Record{
			ID: e.ID, Line: j.line, Message: j.message, Positions: e.Message.Event.Positions,
			Reply: j.reply, Err: e.Err, Run: j.run,
		})
		s.counted()
	}
}
