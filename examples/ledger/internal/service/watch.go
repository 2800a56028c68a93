package service

import (
	"context"
	"errors"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/examples/ledger/internal/audit"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
	"github.com/interlock-go/interlock/ordering"
)

// begin notes when and where a handler begins.
func (s *Service) begin(ctx context.Context) audit.Record {
	info, _ := dispatcher.InfoFrom(ctx)
	return audit.Record{ID: info.ID, Run: audit.Run{Begin: s.clock.Add(1), Start: time.Now(), Worker: info.Worker}}
}

// ran tells the audit what a handler has done, while it still has its lock keys.
// failed is the error of the commit.
func (s *Service) ran(r audit.Record, job ordering.Job[*book.Message], result store.Result, failed error) {
	r.Run.Stop, r.Run.End = time.Now(), s.clock.Add(1)
	switch {
	case errors.Is(failed, ordering.ErrFenced): // another program has the database: what was read does not count
	case result.IsCopy():
		r.Copy = true
		s.cfg.Audit.Ran(r, failed != nil)
	default:
		e := job.Event
		r.Event, r.Line, r.Message, r.Positions = e.Name(), lineOf(e), job.Value, e.Positions
		r.Reply, r.Err = result.Answer.Reply, result.Answer.Err()
		s.cfg.Audit.Ran(r, failed != nil)
	}
}

// watch tells the audit what the dispatcher does, and the recorder, if there is one.
func (s *Service) watch(e dispatcher.Event[ordering.Job[*book.Message]]) {
	if s.recorder != nil {
		s.recorder.Observe(e)
	}
	switch e.Kind {
	case dispatcher.Blocked:
		s.cfg.Audit.Contention.Blocked(e.ID, e.Key, e.Time)
	case dispatcher.Started:
		s.cfg.Audit.Contention.Started(e.ID, e.Time)
	case dispatcher.Finished:
		<-s.started
		switch ran, copied := s.cfg.Audit.Ended(e.ID, s.sequencer.Err() != nil); {
		case ran && copied:
			s.counts.copies.Add(1)
		case ran:
			s.counts.ran.Add(1)
		}
	case dispatcher.Undone:
		s.cfg.Audit.Undone(e.ID, e.Time)
	}
}
