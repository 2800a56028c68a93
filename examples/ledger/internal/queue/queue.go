// Package queue says how messages of the ledger travel through RabbitMQ: as
// events whose numbers are in the header X-Sequence-ID and whose body is the
// JSON form of the message.
package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// DeadLetters is the name of the queue for what is no message, of the queue
// with the given name.
func DeadLetters(name string) string { return name + ".dead" }

// Topology returns the queue and that for its dead letters. Of the programs
// that consume it, one gets messages, and the others stand by.
func Topology(name string) rabbitmq.Topology {
	return rabbitmq.Topology{Queues: []rabbitmq.Queue{{Name: name, SingleActive: true}, {Name: DeadLetters(name)}}}
}

// Window is how many messages the broker sends ahead of their acknowledgements.
const Window = 1024

// Checked returns a receiver that gives next what is a message of the ledger,
// and makes a dead letter of the rest. By whichever way a message comes, it is
// known by its numbers, and what it says confirms it: so the ID of the broker's
// message is taken away, and its body is that of [book.Message.Payload].
func Checked(next rabbitmq.Receiver) rabbitmq.Receiver { return checked{next} }

type checked struct{ next rabbitmq.Receiver }

// Receive implements [rabbitmq.Receiver].
func (c checked) Receive(ctx context.Context, m amqp.Delivery, settle rabbitmq.Settle) error {
	message, err := check(m)
	if err != nil {
		settle(rabbitmq.DeadLetter(err))
		return nil
	}
	if m.Body, err = message.Payload(); err != nil {
		return err
	}
	m.MessageId, m.Type = "", string(message.Op)
	return c.next.Receive(ctx, m, settle)
}

// check reads a message, or tells why it can never be applied or rejected by the
// book.
func check(d amqp.Delivery) (*book.Message, error) {
	e, err := rabbitmq.EventOf(d)
	if err != nil {
		return nil, err
	}
	for _, p := range e.Positions {
		if err := book.CheckStream(p.Stream); err != nil {
			return nil, fmt.Errorf("header %s: %w", ordering.SequenceIDHeader, err)
		}
	}
	m, err := book.Decode(d.Body)
	if err != nil {
		return nil, err
	}
	if len(m.Sequence) > 0 && !samePositions(m.Sequence, e.Positions) {
		return nil, fmt.Errorf("%w: %q and %q", ErrSequence, ordering.FormatSequenceID(m.Sequence), ordering.FormatSequenceID(e.Positions))
	}
	return m, m.Claim(new(lockkeys.Claim))
}

// ErrSequence is wrapped by the reason of a dead letter whose body has other
// numbers than its header.
var ErrSequence = errors.New("\"sequence\" is not what the header " + ordering.SequenceIDHeader + " says: leave it out, or correct one of them")

// samePositions reports whether two messages have the same numbers.
func samePositions(a, b []ordering.Position) bool {
	sorted := func(positions []ordering.Position) []ordering.Position {
		return slices.SortedFunc(slices.Values(positions), func(p, q ordering.Position) int { return p.Stream.Compare(q.Stream) })
	}
	return slices.Equal(sorted(a), sorted(b))
}
