package ordering

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// place is a place of a stream, see [Position.Place].
type place struct {
	stream lockkeys.Key
	number uint64
}

func (p Position) place() place { return place{p.Stream, p.Place()} }

// memoryMark counts the runs of an event.
type memoryMark struct {
	runs    int
	command bool
	last    time.Time // when the last run was counted
}

// Look implements [Term].
func (t *memoryTerm) Look(ctx context.Context, positions []Position) ([]NumberState, error) {
	c, err := t.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer t.leave()
	states := make([]NumberState, len(positions))
	for i, p := range positions {
		if st := c.streams[p.Stream]; st != nil {
			states[i] = NumberState{Last: st.last, Fence: st.fence, Done: st.isDone(p.Place()), Pruned: p.Place() <= st.pruned}
		}
		states[i].Job = c.jobLocked(p, states[i].Done)
	}
	return states, nil
}

// jobLocked returns the job state of a number. If the number is done, job
// states of failed events do not count.
func (c *memoryConsumer) jobLocked(p Position, done bool) *JobState {
	if job, ok := c.jobs[p.place()]; ok && !(done && job.Status == StatusParked) {
		return &job
	}
	for _, s := range c.skips[p.Stream] {
		if n := p.Place(); s.From <= n && n <= s.To {
			job := s.JobState()
			return &job
		}
	}
	return nil
}

// LookCommands implements [Term].
func (t *memoryTerm) LookCommands(ctx context.Context, ids []string) ([]*JobState, error) {
	c, err := t.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer t.leave()
	states := make([]*JobState, len(ids))
	for i, id := range ids {
		if job, ok := c.commands[id]; ok {
			states[i] = &job
		}
	}
	return states, nil
}

// Commit implements [Term].
func (t *memoryTerm) Commit(ctx context.Context, r Record) error {
	r.Term = &t.info
	return t.memory.Commit(ctx, r)
}

// commitLocked writes a record whose term was checked.
func (c *memoryConsumer) commitLocked(r Record) error {
	for i, p := range r.Event.Positions {
		st, err := c.heldByLocked(r.Fences[i], p.Stream)
		if err != nil {
			return err
		}
		if len(r.Known) > 0 && st.last < r.Known[i] {
			return &LostError{Stream: p.Stream, Known: r.Known[i], Has: st.last}
		}
		if st.isDone(p.Place()) {
			return fmt.Errorf("%w: %s", ErrDuplicate, p)
		}
	}
	r.Reply = bytes.Clone(r.Reply)
	if r.IsCommand() {
		if _, known := c.commands[r.Event.ID]; known {
			return fmt.Errorf("%w: command %.80q", ErrDuplicate, r.Event.ID)
		}
		c.commands[r.Event.ID] = r.State()
	} else {
		for _, p := range r.Event.Positions {
			st := c.streams[p.Stream]
			st.setDone(p.Place(), p.Place())
			if p.End {
				st.ended = max(st.ended, p.Place())
			}
		}
		c.jobs[firstOf(r.Event.Positions).place()] = r.State()
	}
	if r.Held {
		c.forgetLocked(r.JobState.Positions)
	}
	if r.Marked {
		delete(c.marks, MarkOf(r.JobState.Positions, r.Event.ID))
	}
	return nil
}

// Mark implements [Term].
func (t *memoryTerm) Mark(ctx context.Context, e *Event, most int) (run int, err error) {
	if e == nil {
		return 0, ErrNilEvent
	}
	c, err := t.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer t.leave()
	key := MarkOf(e.Positions, e.ID)
	if run = min(c.marks[key].runs, most) + 1; run <= most {
		c.marks[key] = memoryMark{runs: run, command: len(e.Positions) == 0, last: time.Now()}
	}
	return run, nil
}

// Unmark implements [Term].
func (t *memoryTerm) Unmark(ctx context.Context, e *Event) error {
	if e == nil {
		return ErrNilEvent
	}
	c, err := t.enter(ctx)
	if err != nil {
		return err
	}
	defer t.leave()
	key := MarkOf(e.Positions, e.ID)
	mark := c.marks[key]
	if mark.runs--; mark.runs > 0 {
		c.marks[key] = mark
	} else {
		delete(c.marks, key)
	}
	return nil
}

// Skip implements [Term].
func (t *memoryTerm) Skip(ctx context.Context, s Skipped) error {
	if err := s.Validate(); err != nil {
		return err
	}
	c, err := t.begin(ctx)
	if err != nil {
		return err
	}
	defer t.leave()
	st, err := c.heldByLocked(s.Fence, s.Stream)
	if err != nil {
		return err
	}
	if st.last < s.Known {
		return &LostError{Stream: s.Stream, Known: s.Known, Has: st.last}
	}
	for _, part := range st.isNotDone(Span{From: s.From, To: s.To}) {
		s.From, s.To = part.From, part.To
		c.skips[s.Stream] = append(c.skips[s.Stream], s)
		st.setDone(part.From, part.To)
	}
	return nil
}

// Decisions implements [Reader]. It visits all job states.
func (r memoryReader) Decisions(ctx context.Context, before time.Time, limit int) ([]JobState, error) {
	c, err := r.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer r.leave()
	var list []JobState
	add := func(job JobState) {
		if job.By != "" && (before.IsZero() || job.Ended.Before(before)) {
			list = append(list, job)
		}
	}
	for _, job := range c.jobs {
		add(job)
	}
	for _, job := range c.commands {
		add(job)
	}
	for _, skips := range c.skips {
		for _, s := range skips {
			add(s.JobState())
		}
	}
	slices.SortFunc(list, func(a, b JobState) int { return b.Ended.Compare(a.Ended) })
	for limit = max(limit, 0); limit > 0 && limit < len(list) && list[limit].Ended.Equal(list[limit-1].Ended); {
		limit++
	}
	return list[:min(limit, len(list))], nil
}

// Prune implements [Term]. It visits all job states.
func (t *memoryTerm) Prune(ctx context.Context, before, commandsBefore time.Time) (int64, error) {
	c, err := t.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer t.leave()
	parked := c.parkedEventsLocked()
	n := 0
	prune := func(p Position) {
		st := c.streamLocked(p.Stream)
		st.pruned = max(st.pruned, p.Place())
	}
	maps.DeleteFunc(c.jobs, func(at place, job JobState) bool {
		if !job.Ended.Before(before) || job.Status == StatusParked && parked[at] {
			return false
		}
		if job.Status != StatusParked { // which has made nothing done
			for _, p := range job.Positions {
				prune(p)
			}
		}
		n++
		return true
	})
	maps.DeleteFunc(c.commands, func(_ string, job JobState) bool {
		if !job.Ended.Before(commandsBefore) {
			return false
		}
		n++
		return true
	})
	maps.DeleteFunc(c.marks, func(_ Hash, mark memoryMark) bool {
		limit := before
		if mark.command {
			limit = commandsBefore
		}
		if !mark.last.Before(limit) {
			return false
		}
		n++
		return true
	})
	for stream, skips := range c.skips {
		c.skips[stream] = slices.DeleteFunc(skips, func(s Skipped) bool {
			if !s.Time.Before(before) || s.EndsEpoch() {
				return false
			}
			prune(PositionAt(stream, s.To))
			n++
			return true
		})
	}
	return int64(n), nil
}
