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

// Topology is what a service expects to find on the broker. What is missing is
// created. What is there must be as it is described here, or the broker refuses
// it. Nothing is ever deleted.
type Topology struct {
	Exchanges []Exchange
	Queues    []Queue
	Bindings  []Binding
}

// Exchange describes a durable exchange.
type Exchange struct {
	Name string
	// Kind is "direct", "fanout", "topic", "headers" or what a plugin of the
	// broker adds. Default: "direct".
	Kind string
	Args amqp.Table // others of the broker's; default: none
}

// QueueType says how a queue keeps its messages.
type QueueType string

const (
	// Quorum queues are replicated if there are several nodes, and write each
	// acknowledgement to disk: what was acknowledged does not come again after
	// a crash of the broker.
	Quorum QueueType = "quorum"
	// Classic queues are on one node. What was acknowledged shortly before a
	// crash of the broker comes again.
	Classic QueueType = "classic"
)

// Queue describes a durable queue.
type Queue struct {
	Name string
	Type QueueType // default: Quorum
	// SingleActive lets the queue have one consumer at a time; the others are
	// in waiting.
	SingleActive bool
	// DeadLetter is the exchange to which the broker publishes messages that
	// are rejected or expire, and DeadLetterKey the routing key, by default
	// that of the message. If only the key is set, it is the default exchange;
	// if none is, such messages are dropped. Consumers of this package reject
	// nothing; for their own dead letters see [ConsumerConfig].
	DeadLetter, DeadLetterKey string
	// DeliveryLimit is how often a message may come back to a quorum queue, with
	// a channel that is lost for example, until the broker drops it, or publishes
	// it to DeadLetter. Negative means without limit, which RabbitMQ 4 knows.
	// Default: the broker's own, 20 from RabbitMQ 4 on and none before.
	DeliveryLimit int
	Args          amqp.Table // others of the broker's; default: none
}

// Binding lets an exchange route to a queue.
type Binding struct {
	Queue    string
	Exchange string
	Key      string
	Args     amqp.Table // for a headers exchange, say; default: none
}

// Declare declares all exchanges, then all queues, then all bindings. On an
// error the channel is closed, and what came before the item at fault is
// declared. The error is a [*TopologyError].
func (t Topology) Declare(ch *amqp.Channel) error {
	return t.declare(ch, func(one func() error) error { return one() })
}

// declare has each declaration made by call.
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

// And returns what is in t, and then what is in other.
func (t Topology) And(other Topology) Topology {
	return Topology{
		Exchanges: slices.Concat(t.Exchanges, other.Exchanges),
		Queues:    slices.Concat(t.Queues, other.Queues),
		Bindings:  slices.Concat(t.Bindings, other.Bindings),
	}
}

func (t Topology) isEmpty() bool { return len(t.Exchanges)+len(t.Queues)+len(t.Bindings) == 0 }

// leads tells whether what is published to an exchange with a key would get to
// a queue by something that the topology has.
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

// arguments are those of the declaration.
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

// limit returns the delivery limit that is declared, 0 if none is, or -1 if there
// is to be none.
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
		p.Add(e.Name == "", "Topology.Exchanges[%d] has no name", i)
		addName(p, e.Name)
		addArgs(p, fmt.Sprintf("exchange %q", e.Name), e.Args)
	}
	for i, q := range t.Queues {
		p.Add(q.Name == "", "Topology.Queues[%d] has no name", i)
		addName(p, q.Name)
		p.Add(q.queueType() != Quorum && q.queueType() != Classic, "queue %q: type %q is unknown: use Quorum or Classic", q.Name, q.Type)
		p.Add(q.DeliveryLimit != 0 && q.queueType() != Quorum, "queue %q: DeliveryLimit is for quorum queues only", q.Name)
		_, limited := q.Args[argDeliveryLimit]
		p.Add(q.DeliveryLimit != 0 && limited, "queue %q: DeliveryLimit and argument %q are two limits", q.Name, argDeliveryLimit)
		for _, name := range []string{amqp.QueueTypeArg, argSingleActive, argDeadLetter, argDeadLetterKey} {
			_, has := q.Args[name]
			p.Add(has, "queue %q: argument %q has a field of its own", q.Name, name)
		}
		addArgs(p, fmt.Sprintf("queue %q", q.Name), q.Args)
	}
	for _, b := range t.Bindings {
		p.Add(b.Queue == "" || b.Exchange == "", "%v: both need a name; the default exchange has all queues bound already", b)
		addName(p, b.Key)
		addArgs(p, b.String(), b.Args)
	}
}

// addName adds a name that is too long for the protocol.
func addName(p *settings.Problems, name string) {
	p.Add(len(name) > maxShort, "name %.80q has %d bytes: the protocol has room for %d", name, len(name), maxShort)
}

func addArgs(p *settings.Problems, of string, args amqp.Table) {
	err := args.Validate()
	p.Add(err != nil, "%s: arguments: %w", of, err)
}

// mayMend tells whether waiting may mend what the broker has against a topology.
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
