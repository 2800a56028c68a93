package rabbitmq

// Settlement is what is to become of a message that was received.
type Settlement struct {
	verdict verdict
	reason  error
}

type verdict uint8

const (
	giveBack verdict = iota
	acknowledge
	deadLetter
)

// Ack acknowledges the message: its effect is durable, or never was to be.
func Ack() Settlement { return Settlement{verdict: acknowledge} }

// Return leaves the message unacknowledged: the broker is to deliver it again. A
// consumer that is not about to stop begins anew for that, since messages go back
// to their places in the queue only with the channel, and all together. It pauses
// before, for its back-off at first, and longer each time that nothing was
// acknowledged on the channel, up to a minute.
func Return() Settlement { return Settlement{verdict: giveBack} }

// DeadLetter has the message published where [ConsumerConfig.DeadLetter] says,
// with its bytes and headers and why, and acknowledges it when that is
// confirmed.
func DeadLetter(reason error) Settlement { return Settlement{deadLetter, reason} }

// Settle is called once for each message that was received, at any time and
// from any goroutine. It does not wait for the broker. If the message's channel
// is gone by then it has no effect: the broker delivers the message again.
type Settle func(Settlement)
