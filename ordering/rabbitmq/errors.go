package rabbitmq

import (
	"errors"
	"fmt"
	"time"
)

// ErrConfig is wrapped by the errors for an invalid configuration; the text
// names every problem.
var ErrConfig = errors.New("rabbitmq: bad configuration")

// ErrRecovery is returned for a [Dialer] whose connections reconnect by
// themselves.
var ErrRecovery = errors.New("rabbitmq: the connection reconnects by itself: leave amqp.Config.Recovery nil")

// TopologyError is the error for a topology that the broker refuses for a
// permanent reason: something exists already and is different, does not exist,
// is used exclusively by another connection, or is not permitted to this user.
type TopologyError struct {
	Item string // as in `queue "orders"`
	Err  error  // an [*amqp.Error] with the broker's reason
}

// Error names what was refused, and why.
func (e *TopologyError) Error() string {
	return fmt.Sprintf("rabbitmq: %s cannot be declared: %v", e.Item, e.Err)
}

// Unwrap gives the broker's reason.
func (e *TopologyError) Unwrap() error { return e.Err }

// MessageError says which message is not an event, or which event cannot be a
// message, and why.
type MessageError struct {
	MessageID string // of the message or the event
	Part      string // the part at fault, as in `header "X-Sequence-ID"`
	Err       error
}

// Error names the message, cut after 80 characters, and the part.
func (e *MessageError) Error() string {
	return fmt.Sprintf("rabbitmq: message %.80q: %s: %v", e.MessageID, e.Part, e.Err)
}

// Unwrap gives the reason.
func (e *MessageError) Unwrap() error { return e.Err }

// Errors of [Consumer.Run].
var (
	// ErrRunning is returned for a consumer that runs already.
	ErrRunning = errors.New("rabbitmq: the consumer runs already")
	// ErrGrace is wrapped when a consumer ended with messages that the
	// receiver had not settled in time. They come again.
	ErrGrace = errors.New("rabbitmq: messages were not settled in time: shut the receiver down when the consumer is to stop, or make Grace longer")
)

// PoisonError is the error for a message that ended a consumer without
// ConsumerConfig.DeadLetter. The message is still in the queue.
type PoisonError struct {
	Queue     string
	MessageID string
	Err       error // what is wrong with it
}

// Error names the queue and the message, cut after 80 characters.
func (e *PoisonError) Error() string {
	return fmt.Sprintf("rabbitmq: message %.80q of queue %s cannot be processed: set ConsumerConfig.DeadLetter, or remove the message: %v", e.MessageID, e.Queue, e.Err)
}

// Unwrap returns the reason.
func (e *PoisonError) Unwrap() error { return e.Err }

// StuckError is the error for dead letters that cannot be published, because
// their queue is full or missing for example. They stay in the queue that they
// came from.
type StuckError struct {
	Queue   string    // the queue that they came from
	Place   Address   // the address to which they cannot be published
	Waiting int       // their number
	Since   time.Time // since when there are any
	Err     error     // of the last failed attempt
}

// Error names queue and place.
func (e *StuckError) Error() string {
	return fmt.Sprintf("rabbitmq: %d dead letters of queue %s wait since %s, since they cannot be published to exchange %q with key %q: %v",
		e.Waiting, e.Queue, e.Since.Format(time.RFC3339), e.Place.Exchange, e.Place.Key, e.Err)
}

// Unwrap gives the reason.
func (e *StuckError) Unwrap() error { return e.Err }

// because adds the cause of an error, if known.
func because(err, cause error) error {
	if cause == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// pause is an error that ends a connection and delays the next one.
type pause struct {
	err  error
	wait time.Duration
}

func (p pause) Error() string { return p.err.Error() }
func (p pause) Unwrap() error { return p.err }

// fatal is an error that ends a link and its user.
type fatal struct{ err error }

func (f fatal) Error() string { return f.err.Error() }
func (f fatal) Unwrap() error { return f.err }

// Reasons why a message was not published; a [*PublishError] wraps one of them.
var (
	// ErrUnroutable: the exchange has no queue for the message's routing key.
	// It may have one later.
	ErrUnroutable = errors.New("no queue gets it: bind one to the exchange, or correct the route")
	// ErrNacked: the broker has refused the message. Its queue is full, for
	// example, and is declared to reject messages in that case.
	ErrNacked = errors.New("the broker has refused it: check the queue's limits and state")
	// ErrUnknown: the message was sent, but it is unknown whether it has
	// arrived. If it is sent again it may be in a queue twice, which its numbers
	// make harmless.
	ErrUnknown = errors.New("sent, but not confirmed in time: it may be in a queue; send it again")
	// ErrNotSent: the message was never sent.
	ErrNotSent = errors.New("not sent")
)

// ErrPublisherClosed is wrapped by the errors for messages after Shutdown, and for
// those that were not confirmed by its end.
var ErrPublisherClosed = errors.New("rabbitmq: the publisher is closed")

// PublishError is the error for a message that was not published, or may not
// have been.
type PublishError struct {
	MessageID string // of the message
	Exchange  string // where it was to go; "" is the default exchange
	Key       string // its routing key
	Err       error  // the reason
}

// Error names the message, cut after 80 characters, and where it was to go.
func (e *PublishError) Error() string {
	return fmt.Sprintf("rabbitmq: message %.80q to exchange %q with key %q: %v", e.MessageID, e.Exchange, e.Key, e.Err)
}

// Unwrap gives the reason.
func (e *PublishError) Unwrap() error { return e.Err }
