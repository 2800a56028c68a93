package rabbitmq

// Settlement says how a received message is settled.
type Settlement struct {
	verdict verdict
	reason  error
}

type verdict uint8

const (
	requeue verdict = iota
	acknowledge
	deadLetter
)

// Ack acknowledges the message: its effect is durable, or it has none.
func Ack() Settlement { return Settlement{verdict: acknowledge} }

// Requeue leaves the message unacknowledged, so that the broker redelivers it.
// Unless it is stopping, the consumer opens a new channel for that, since
// messages return to their places in the queue only all together, with the
// channel. Before that it pauses for its back-off, and longer each time that
// nothing was acknowledged on the channel, up to a minute.
func Requeue() Settlement { return Settlement{verdict: requeue} }

// DeadLetter publishes the message to [ConsumerConfig.DeadLetter], with its
// body, its headers and the reason, and acknowledges it when that is confirmed.
func DeadLetter(reason error) Settlement { return Settlement{deadLetter, reason} }

// Settle is called once for each message that was received, at any time and
// from any goroutine. It does not wait for the broker. If the message's channel
// is gone by then it has no effect: the broker redelivers the message.
type Settle func(Settlement)
