package rabbitmq

import (
	"errors"
	"fmt"
	"time"
)

// ErrConfig is wrapped by the errors for a configuration that cannot work; the
// text names every problem.
var ErrConfig = errors.New("rabbitmq: bad configuration")

// ErrRecovery is returned for a [Dialer] whose connections reconnect by
// themselves.
var ErrRecovery = errors.New("rabbitmq: the connection reconnects by itself: leave amqp.Config.Recovery nil")

// TopologyError says that the broker refuses the topology for a reason that
// waiting will not mend: something is there already and is different, does not
// exist, is used by someone else alone, or is not allowed to this user.
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
	Part      string // what is at fault, as in `header "X-Sequence-ID"`
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

// PoisonError says which message ended a consumer that has no place for dead
// letters. It is still in the queue.
type PoisonError struct {
	Queue     string
	MessageID string
	Err       error // what is wrong with it
}

// Error names the queue and the message, cut after 80 characters.
func (e *PoisonError) Error() string {
	return fmt.Sprintf("rabbitmq: message %.80q of queue %s is of no use, and ConsumerConfig.DeadLetter says nothing about where to put it: %v", e.MessageID, e.Queue, e.Err)
}

// Unwrap gives what is wrong with the message.
func (e *PoisonError) Unwrap() error { return e.Err }

// StuckError says that dead letters are not taken where they are to go, since the
// queue there is full, for example, or is missing. They stay in their own queue.
type StuckError struct {
	Queue   string    // that they come from
	Place   Address   // where they are to go
	Waiting int       // how many wait
	Since   time.Time // when the first of them was not taken
	Err     error     // why the last one was not
}

// Error names queue and place.
func (e *StuckError) Error() string {
	return fmt.Sprintf("rabbitmq: %d dead letters of queue %s wait since %s for exchange %q with key %q to take them: %v",
		e.Waiting, e.Queue, e.Since.Format(time.RFC3339), e.Place.Exchange, e.Place.Key, e.Err)
}

// Unwrap gives the reason.
func (e *StuckError) Unwrap() error { return e.Err }

// because adds the cause of an error, if that is known.
func because(err, cause error) error {
	if cause == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// pause is an error that ends a connection and wants the next one to wait.
type pause struct {
	err  error
	wait time.Duration
}

func (p pause) Error() string { return p.err.Error() }
func (p pause) Unwrap() error { return p.err }

// fatal is an error that ends a link, and with it what uses it.
type fatal struct{ err error }

func (f fatal) Error() string { return f.err.Error() }
func (f fatal) Unwrap() error { return f.err }

// Reasons why a message was not published; a [*PublishError] wraps one of them.
var (
	// ErrUnroutable: the exchange has no queue for the message's routing key.
	// It may have one later.
	ErrUnroutable = errors.New("no queue gets it: bind one to the exchange, or correct the route")
	// ErrNacked: the broker has not taken the message. Its queue is full, for
	// example, and is declared to refuse messages then.
	ErrNacked = errors.New("the broker has not taken it: look at the queue's limits and state")
	// ErrUnknown: the message was sent, and it is not known whether it has
	// arrived. If it is sent again it may be there twice, which its numbers
	// make harmless.
	ErrUnknown = errors.New("sent, but not confirmed in time")
	// ErrNotSent: the message was never sent.
	ErrNotSent = errors.New("not sent")
)

// ErrPublisherClosed is wrapped by the errors for messages after Close, and for
// those that were not confirmed by its end.
var ErrPublisherClosed = errors.New("rabbitmq: the publisher is closed")

// PublishError says which message was not published, or may not have been, and
// why.
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
