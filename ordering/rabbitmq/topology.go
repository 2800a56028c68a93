package rabbitmq

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/internal/settings"
)

// Topology describes the exchanges, queues and bindings that a service expects on
// the broker. Missing ones are created. Existing ones must be as described, or
// the broker refuses the declaration. Nothing is ever deleted.
type Topology struct {
	Exchanges []Exchange
	Queues    []Queue
	Bindings  []Binding
}

// Exchange describes a durable exchange.
type Exchange struct {
	Name string
	// Kind is "direct", "fanout", "topic", "headers" or one added by a plugin of
	// the broker. Default: "direct".
	Kind string
	Args amqp.Table // further arguments; default: none
}

// QueueType says how a queue keeps its messages.
type QueueType string

const (
	// Quorum queues are replicated if there are several nodes, and write each
	// acknowledgement to disk: acknowledged messages are not redelivered after a
	// crash of the broker.
	Quorum QueueType = "quorum"
	// Classic queues are on one node. Messages acknowledged shortly before a
	// crash of the broker are redelivered.
	Classic QueueType = "classic"
)

// Queue describes a durable queue.
type Queue struct {
	Name string
	Type QueueType // default: Quorum
	// SingleActive lets the queue have one active consumer at a time; the others
	// wait.
	SingleActive bool
	// DeadLetter is the exchange to which the broker publishes messages that
	// are rejected, expire or reach the delivery limit, and DeadLetterKey the
	// routing key, by default that of the message. If only the key is set, the
	// exchange is the default one; if neither is, such messages are dropped.
	// Consumers of this package reject nothing; for their own dead letters see
	// [ConsumerConfig].
	DeadLetter, DeadLetterKey string
	// DeliveryLimit is how often a message may return to a quorum queue, for
	// example with a lost channel, before the broker drops it or publishes it to
	// DeadLetter. Negative means no limit, for which RabbitMQ 4 is required.
	// Default: the broker's own, 20 from RabbitMQ 4 on and none before.
	DeliveryLimit int
	Args          amqp.Table // further arguments; default: none
}

// Binding makes an exchange route messages to a queue.
type Binding struct {
	Queue    string
	Exchange string
	Key      string
	Args     amqp.Table // for a headers exchange, say; default: none
}

// Declare declares all exchanges, then all queues, then all bindings. On an
// error the channel is closed, and everything before the item at fault is
// declared. The error is a [*TopologyError].
func (t Topology) Declare(ch *amqp.Channel) error {
	return t.declare(ch, func(one func() error) error { return one() })
}

// declare makes each declaration through call.
func (t Topology) declare(ch *amqp.Channel, call func(one func() error) error) error {
	for _, e := range t.Exchanges {
		err := call(func() error { return ch.ExchangeDeclare(e.Name, e.kind(), true, false, false, false, e.Args) })
		if err != nil {
			return &TopologyError{fmt.Sprintf("exchange %q", e.Name), err}
		}
	}
	for _, q := range t.Queues {
		err := call(func() error {
			_, err := ch.QueueDeclare(q.Name, true, false, false, false, q.arguments())
			return err
		})
		if err != nil {
			return &TopologyError{fmt.Sprintf("queue %q", q.Name), err}
		}
	}
	for _, b := range t.Bindings {
		err := call(func() error { return ch.QueueBind(b.Queue, b.Key, b.Exchange, false, b.Args) })
		if err != nil {
			return &TopologyError{b.String(), err}
		}
	}
	return nil
}

// And returns the items of t, followed by those of other.
func (t Topology) And(other Topology) Topology {
	return Topology{
		Exchanges: slices.Concat(t.Exchanges, other.Exchanges),
		Queues:    slices.Concat(t.Queues, other.Queues),
		Bindings:  slices.Concat(t.Bindings, other.Bindings),
	}
}

func (t Topology) isEmpty() bool { return len(t.Exchanges)+len(t.Queues)+len(t.Bindings) == 0 }

// leads reports whether the topology has a queue, an exchange or a binding on the
// way of a message to an exchange with a key.
func (t Topology) leads(exchange, key string) bool {
	if exchange == "" {
		return slices.ContainsFunc(t.Queues, func(q Queue) bool { return q.Name == key })
	}
	return slices.ContainsFunc(t.Exchanges, func(e Exchange) bool { return e.Name == exchange }) ||
		slices.ContainsFunc(t.Bindings, func(b Binding) bool { return b.Exchange == exchange })
}

func (e Exchange) kind() string {
	if e.Kind == "" {
		return amqp.ExchangeDirect
	}
	return e.Kind
}

// String names the queue, the exchange and the key.
func (b Binding) String() string {
	return fmt.Sprintf("binding of queue %q to exchange %q with key %q", b.Queue, b.Exchange, b.Key)
}

const (
	argSingleActive  = "x-single-active-consumer"
	argDeadLetter    = "x-dead-letter-exchange"
	argDeadLetterKey = "x-dead-letter-routing-key"
	argDeliveryLimit = "x-delivery-limit"
	argPriority      = "x-priority" // of a consumer
)

// arguments returns the arguments of the declaration.
func (q Queue) arguments() amqp.Table {
	args := amqp.Table{amqp.QueueTypeArg: string(q.queueType())}
	maps.Copy(args, q.Args)
	if q.SingleActive {
		args[argSingleActive] = true
	}
	if q.DeadLetter != "" || q.DeadLetterKey != "" {
		args[argDeadLetter] = q.DeadLetter // "" is the default exchange
	}
	if q.DeadLetterKey != "" {
		args[argDeadLetterKey] = q.DeadLetterKey
	}
	if q.DeliveryLimit != 0 {
		args[argDeliveryLimit] = int64(q.DeliveryLimit)
	}
	return args
}

// limit returns the declared delivery limit, 0 for the broker's default, or -1 for
// no limit.
func (q Queue) limit() int {
	if q.DeliveryLimit != 0 {
		return max(q.DeliveryLimit, -1)
	}
	digits, _ := integer(q.Args[argDeliveryLimit])
	n, _ := strconv.Atoi(digits)
	return max(n, -1)
}

func (q Queue) queueType() QueueType {
	if q.Type == "" {
		return Quorum
	}
	return q.Type
}

func (t Topology) validate(p *settings.Problems) {
	for i, e := range t.Exchanges {
		p.Add(e.Name == "", "Topology.Exchanges[%d] has no name: set Name", i)
		addName(p, e.Name)
		addArgs(p, fmt.Sprintf("exchange %q", e.Name), e.Args)
	}
	for i, q := range t.Queues {
		p.Add(q.Name == "", "Topology.Queues[%d] has no name: set Name", i)
		addName(p, q.Name)
		p.Add(q.queueType() != Quorum && q.queueType() != Classic, "queue %q: type %q is unknown: use Quorum or Classic", q.Name, q.Type)
		p.Add(q.DeliveryLimit != 0 && q.queueType() != Quorum, "queue %q: DeliveryLimit is for quorum queues only", q.Name)
		_, limited := q.Args[argDeliveryLimit]
		p.Add(q.DeliveryLimit != 0 && limited, "queue %q: DeliveryLimit and argument %q are both set: use DeliveryLimit", q.Name, argDeliveryLimit)
		for _, name := range []string{amqp.QueueTypeArg, argSingleActive, argDeadLetter, argDeadLetterKey} {
			_, has := q.Args[name]
			p.Add(has, "queue %q: argument %q: use the field of Queue instead", q.Name, name)
		}
		addArgs(p, fmt.Sprintf("queue %q", q.Name), q.Args)
	}
	for _, b := range t.Bindings {
		p.Add(b.Queue == "" || b.Exchange == "", "%v: both need a name; the default exchange has all queues bound already", b)
		addName(p, b.Key)
		addArgs(p, b.String(), b.Args)
	}
}

// addName adds a problem for a name that is too long for the protocol.
func addName(p *settings.Problems, name string) {
	p.Add(len(name) > maxShort, "name %.80q has %d bytes: the protocol allows %d", name, len(name), maxShort)
}

func addArgs(p *settings.Problems, of string, args amqp.Table) {
	err := args.Validate()
	p.Add(err != nil, "%s: arguments: %w", of, err)
}

// mayMend reports whether waiting may mend what the broker has against a topology.
func mayMend(err error) bool {
	var e *amqp.Error
	if !errors.As(err, &e) || !e.Server {
		return true
	}
	switch e.Code {
	case amqp.AccessRefused, amqp.NotFound, amqp.ResourceLocked, amqp.PreconditionFailed:
		return false
	}
	return true
}
