package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// A request over HTTP with an ID and no numbers is a command of the sequencer,
// see [ordering.Event.IsCommand]: a repeat joins the first copy, or gets its
// stored answer, and the handler is not called again.
//
// But an ID holds whichever way the message comes: from a file, where its place
// numbers it, and from a queue, where its sender does. Numbered messages are known
// to the sequencer by their numbers alone. So the ledger has a table of its own with
// the IDs of all messages, commands included, in which the handler looks them up.
// That also remembers those commands that the sequencer has forgotten by then, after
// its CommandRetention.

// idKey is the key above those of messages' IDs. It is no account, since those
// have no colon within a level.
const idKey = "id:"

// claimID adds the key of a message's ID to a claim, so that two messages with
// the same one do not run at the same time.
func claimID(m *book.Message, claim *lockkeys.Claim) error {
	if m.ID == "" {
		return nil
	}
	id, err := lockkeys.New(idKey, m.ID)
	if err != nil {
		return err
	}
	claim.Exclusive(id)
	return nil
}

// lookUp finds out whether a message with an ID is a copy of an earlier one, and
// then returns the answer to that. If it is the first one, known is what is to be
// kept of it. If another message has the ID, the answer is a rejection.
func (s *Service) lookUp(ctx context.Context, e *ordering.Event, id string) (answer *book.Answer, known *store.Known, err error) {
	digest := digestOf(e)
	switch first, err := s.cfg.Store.Known(ctx, id); {
	case err != nil:
		return nil, nil, err
	case first == nil:
		return nil, &store.Known{ID: id, Digest: digest}, nil
	case first.Digest == digest:
		return &first.Answer, nil, nil
	}
	return nil, nil, idTaken(id)
}

// idTaken is the rejection of a message whose ID is that of another one.
func idTaken(id string) *book.Rejection {
	return &book.Rejection{Reason: book.IDTaken, Detail: fmt.Sprintf(
		"%.80q is that of a message that says something else, or has other numbers: give this one an id of its own", id)}
}

// isIDTaken reports whether an error is such a rejection.
func isIDTaken(err error) bool {
	rejection, ok := book.Refused(err)
	return ok && rejection.Reason == book.IDTaken
}

// failureFor is the policy for a message that has failed for good. Nothing is kept of
// a command whose ID is taken: it must not stand in the way of a true copy of the
// message that has the ID. When a message cannot be done, when the disk is full for
// example, nothing more is tried: those that build on it must not run without it.
func failureFor(_ ordering.Job[*book.Message], err error) dispatcher.FailurePolicy {
	if isIDTaken(err) {
		return dispatcher.Park
	}
	return dispatcher.Stop
}

// digestOf is a digest of what a message says, its sender's numbers included.
func digestOf(e *ordering.Event) string {
	h := sha256.New()
	h.Write(e.Payload)
	if hasNumbers(e) {
		numbers := slices.SortedFunc(slices.Values(e.Positions), func(p, q ordering.Position) int { return p.Stream.Compare(q.Stream) })
		h.Write([]byte(ordering.FormatSequenceID(numbers)))
	}
	return hex.EncodeToString(h.Sum(nil))
}
