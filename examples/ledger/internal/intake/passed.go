package intake

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/interlock-go/interlock/examples/ledger/internal/feed"
	"github.com/interlock-go/interlock/examples/ledger/internal/numbering"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
)

// What an earlier run has done is passed over, up to the last checkpoint. What that
// rests on:
//
//   - The first block is read and compared as ever, and with it the identity.
//   - The end of what is passed over, 64 KiB of a file, is the same as it was; see
//     [feed.Seeker]. If it is not, all is read.
//   - All before it is, which [Source.Check] finds out beside the run.
//   - There is nothing in it but messages that count: places behind a malformed part,
//     or a message with numbers of its sender, are not kept. Those are told anew in
//     each run.

// mark notes behind the last message that is ready where the source goes on, if that
// is to be kept.
func (s *Source) mark() {
	seeker, ok := s.source.(feed.Seeker)
	if !ok || s.odd {
		return
	}
	place, err := seeker.Place()
	if err != nil {
		s.end = err
		return
	}
	s.ready[len(s.ready)-1].Place = place
}

// passOver goes on at the checkpoint, if that is behind the first block.
func (s *Source) passOver() {
	seeker, ok := s.source.(feed.Seeker)
	if !ok || s.odd || s.checkpoints == nil || s.input.ID == 0 || s.end != nil {
		return
	}
	c, err := s.checkpoints.Checkpoint(s.ctx, s.input.ID)
	if err != nil {
		s.ready, s.end = nil, err
		return
	}
	if c == nil || c.Messages <= s.read || !numbering.CanLoad(c.Numbers) {
		return
	}
	known, err := s.store.Digests(s.ctx, s.input.ID, c.Messages/batch)
	if err != nil {
		s.ready, s.end = nil, err
		return
	}
	if len(known) < int(c.Messages%batch)*size || seeker.Seek(c.Place) != nil {
		return // all is read, and whatever was changed is found
	}
	s.passed, s.read, s.known = c, c.Messages, slices.Clone(known)
	s.ready = nil
}

// Passed returns the checkpoint up to which messages were passed over; nil if none
// were. It is called once Next has returned.
func (s *Source) Passed() *store.Checkpoint { return s.passed }

// Check reads what was passed over, and returns a [*PassedError] if that was changed.
// Then it is read the next time. It may be called beside Next.
func (s *Source) Check(ctx context.Context) error {
	if s.passed == nil {
		return nil
	}
	err := s.source.(feed.Seeker).Check(ctx, s.passed.Place)
	if errors.Is(err, feed.ErrOtherPlace) {
		return errors.Join(&PassedError{Name: s.input.Name, Line: s.passed.Line, Err: err},
			s.checkpoints.SaveCheckpoint(ctx, s.input.ID, nil))
	}
	return err
}

// PassedError says that an input was changed in a part that was passed over, since
// all in it was done before.
type PassedError struct {
	Name string
	Line int // the last one of that part
	Err  error
}

func (e *PassedError) Error() string {
	return fmt.Sprintf("%s was changed somewhere in its first %d lines, which were passed over since they were done before: nothing more is applied. "+
		"Run it again: then all of it is read, and the first line that differs is told (%v)", e.Name, e.Line, e.Err)
}

// Unwrap gives the reason.
func (e *PassedError) Unwrap() error { return e.Err }
