package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// The ID of a message holds whichever way the message comes: from a file, where
// its place numbers it, from a queue, where its sender does, and over HTTP. So it
// is looked up here, by the handler, in a table of the ledger's. Where requests
// with an idempotency key come one way only, and have no numbers, they are the
// sequencer's commands, which need none of this.

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
	return nil, nil, &book.Rejection{Reason: book.IDTaken, Detail: fmt.Sprintf(
		"%.80q is that of a message that says something else, or has other numbers: give this one an id of its own", id)}
}

// digestOf is a digest of what a message says, its sender's numbers included.
func digestOf(e *ordering.Event) string {
	h := sha256.New()
	h.Write(e.Payload)
	if inputOf(e) == 0 {
		numbers := slices.SortedFunc(slices.Values(e.Positions), func(p, q ordering.Position) int { return p.Stream.Compare(q.Stream) })
		h.Write([]byte(ordering.FormatSequenceID(numbers)))
	}
	return hex.EncodeToString(h.Sum(nil))
}
