package service

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/examples/ledger/internal/audit"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
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
	refused error // why the book refused it
	lost    bool  // another program has the database: what was read and found here does not count
	copied  bool  // it is a copy by its ID, and reply and refused are those of the first
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
	if j.message.ID == "" {
		return nil
	}
	id, err := lockkeys.New(idKey, j.message.ID)
	if err != nil {
		return err
	}
	claim.Exclusive(id)
	return nil
}

// idKey is the key above those of messages' IDs. It is no account, since those
// have no colon within a level.
const idKey = "id:"

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
	if err := s.do(ctx, oj, j); err != nil {
		if errors.Is(err, ordering.ErrFenced) {
			j.lost = true
			j.outcome.Result = ordering.Unfinished // of one that was not offered here, nobody else says so
			if !j.revived {
				s.abort(fmt.Errorf("another program has taken over the database: %w", err))
			}
		}
		return err
	}
	return nil
}

// do applies a message and commits what came of it. That the book refuses it is
// a result as well, which is kept with the numbers, and no failure.
func (s *Service) do(ctx context.Context, oj ordering.Job, j *job) error {
	e, m := oj.Event, j.message
	var result store.Result
	j.reply, j.refused, j.copied, j.lost = book.Reply{}, nil, false, false // of an earlier attempt
	if m.ID != "" {
		first, err := s.cfg.Store.Known(ctx, m.ID)
		if err != nil {
			return err
		}
		digest := digestOf(e)
		switch {
		case first == nil:
			result.Known = &store.Known{ID: m.ID, Digest: digest}
		case first.Digest == digest:
			j.reply, j.copied = first.Reply, true
			if first.Rejection != nil {
				j.refused = first.Rejection
			}
			return s.commit(ctx, oj, result)
		default:
			j.refused = &book.Rejection{Reason: book.IDTaken, Detail: fmt.Sprintf(
				"%.80q is that of a message that says something else, or has other numbers: give this one an id of its own", m.ID)}
		}
	}
	if j.refused == nil {
		tx := book.Begin(ctx, s.cfg.Store)
		var err error
		if j.reply, err = book.Apply(tx, m); err == nil {
			result.Changes = tx.Changes()
		} else if _, refused := book.Refused(err); refused {
			j.refused = err
		} else {
			return err
		}
	}
	if rejection, ok := book.Refused(j.refused); ok {
		result.Refusal = &store.Refusal{Event: e.Name(), Input: inputOf(e), Line: j.line, Message: e.Payload, Rejection: *rejection}
		if result.Known != nil {
			result.Known.Rejection = rejection
		}
	} else if result.Known != nil {
		result.Known.Reply = j.reply
	}
	return s.commit(ctx, oj, result)
}

// commit makes a result lasting. That its numbers are done already may be the
// work of a program that has taken over the database; then it is that that is told.
func (s *Service) commit(ctx context.Context, oj ordering.Job, result store.Result) error {
	err := s.cfg.Store.Commit(ctx, oj, result)
	if errors.Is(err, ordering.ErrDuplicate) {
		if lost := s.cfg.Store.Holds(ctx); errors.Is(lost, ordering.ErrFenced) {
			return lost
		}
	}
	return err
}

// inputOf returns the input that a message was numbered for, 0 if its sender
// numbered it.
func inputOf(e *ordering.Event) (id int64) {
	stream := e.Positions[0].Stream
	if !book.OwnStreams.Contains(stream) {
		return 0
	}
	level := 0
	for segment := range stream.Segments() {
		if level == 1 {
			id, _ = strconv.ParseInt(segment, 10, 64) // as offerNumbered wrote it
		}
		level++
	}
	return id
}

// digestOf tells what a message says, its sender's numbers included.
func digestOf(e *ordering.Event) string {
	h := sha256.New()
	h.Write(e.Payload)
	if inputOf(e) == 0 {
		numbers := slices.SortedFunc(slices.Values(e.Positions), func(p, q ordering.Position) int { return p.Stream.Compare(q.Stream) })
		h.Write([]byte(ordering.FormatSequenceID(numbers)))
	}
	return hex.EncodeToString(h.Sum(nil))
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
		if j == nil || j.run.Begin == 0 || j.lost || j.outcome.Result == ordering.Unfinished {
			s.cfg.Audit.Void(e.ID) // it did not run, or its effect was refused
			return
		}
		if j.revived {
			s.revived.Add(1)
		}
		if j.copied && e.Err == nil {
			s.before.Add(1)
			s.cfg.Audit.Void(e.ID)
			s.counted()
			return
		}
		s.cfg.Audit.Finished(audit.Record{
			ID: e.ID, Event: e.Message.Event.Name(), Line: j.line, Message: j.message, Positions: e.Message.Event.Positions,
			Reply: j.reply, Err: cmp.Or(e.Err, j.refused), Run: j.run,
		})
		s.counted()
	}
}
