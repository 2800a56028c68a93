// Package rabbitmq connects dispatchers and sequencers to RabbitMQ: a
// [Publisher] that knows of each event what became of it, a [Consumer] that
// acknowledges a message when its effect is durable, the [Topology] that both
// expect, and [Partitions] for a service that runs in several processes. It is
// built on the client github.com/rabbitmq/amqp091-go.
//
// # Events as messages
//
// [Message] makes a message of an [ordering.Event], and [EventOf] an event of a
// message. Whatever an event holds comes out again:
//
//	event            message
//	ID               message ID; a hash of it, and header x-event-id, if longer than 255 bytes
//	Type             type; header x-event-type if longer
//	Positions        header X-Sequence-ID, in the form of [ordering.FormatSequenceID]
//	Payload          body
//	Headers          headers, as strings
//	Time             header x-event-time, to the nanosecond; timestamp, to the second
//	CorrelationID    correlation ID; header x-event-correlation-id if longer
//	CausationID      header x-event-causation-id
//
// All headers and properties of a message have one frame, 128 KiB unless broker
// or client are set to less. What does not fit is refused by the publisher.
//
// Messages of others are taken as they come: what their headers and properties
// have that no event can hold is left out, see [EventOf], and what the client
// cannot even read is dropped by [Dial], see [DroppedHeader].
//
// # Connections
//
// Consumers and publishers keep a connection each, to one of the addresses that
// they have. It is dialled again when it is gone, with a wait that grows from
// [Endpoint.MinBackoff] to [Endpoint.MaxBackoff] and is random by half, and the
// topology is declared on each new one. So all is back about a second after the
// broker is. A broker that is killed is found to be gone within some tens of
// milliseconds; a network that is silent, or a broker that is frozen, after one
// and a half heartbeats, which is 15 seconds by default, when an answer takes
// longer than [Endpoint.AnswerTimeout], or a confirmation longer than
// [PublisherConfig.ConfirmTimeout]. The log has a warning for each attempt that
// fails, and says for how long there was no connection when there is one again.
// Ready, and the error of what was not published for want of a connection or a
// channel, wrap the reason: an [*amqp.Error] for a wrong password or vhost, or
// for more channels than the broker allows.
//
// A topology that the broker refuses, since it contradicts what is there, ends
// a consumer or publisher with a [*TopologyError] if it never worked before.
// Otherwise someone may be about to change it, and it is tried again.
//
// # What is promised of publishing
//
//   - Confirmed is in a queue: nil means that the broker has the message in at
//     least one queue, on disk. A message that no queue gets is an error.
//   - In order: see [Publisher]. Messages are sent on one channel per key and
//     sent again in order, so that first appearances in a queue are in order
//     over any number of lost connections and crashes of the broker.
//   - At least once: a message whose confirmation was lost is sent again and may
//     be there twice. Its numbers make that harmless to an
//     [ordering.Sequencer].
//   - Bounded: not more than Channels × Window messages are in memory; whoever
//     publishes more waits, for as long as its context allows.
//   - Every call ends with its context, within some milliseconds, also while the
//     broker is away, out of memory, or says nothing.
//
// # What is promised of consuming
//
//   - Acknowledged when durable: a message leaves the queue once its effect is
//     durable, or the store holds it, or it is confirmed as a dead letter.
//   - On its own channel: a delivery is acknowledged on the channel that it came
//     by, or not at all. On a later one its tag would mean another message.
//   - Never requeued: a message that is rejected to be tried again goes to the
//     back of a quorum queue. Retries are the dispatcher's, in memory, with the
//     keys held.
//   - Run once at a time: a redelivery joins its first copy, if that has not
//     ended yet.
//   - Nothing is in the way: messages that are of no use and parked streams do
//     not stay in the window, and early events take half of it at most. Dead
//     letters that are not taken where they are to go wait beside the window, as
//     many as [ConsumerConfig.MaxStuck]; with more of them the queue stands still.
//     Their headers are cut to what has room beside the reason. [Consumer.Ready],
//     [ConsumerStats] and the log say so.
//   - Told: what of a message is left out, and which message becomes a dead
//     letter and why, is counted and logged, the latter every ten seconds at most.
//   - Resumed: after lost connections, crashes of the broker, a deleted queue or a
//     cancelled consumer all is declared and consumed again. A store that is away
//     when a message is given to it costs nothing: the message is kept, with those
//     behind it, until the store takes it.
//   - Ended when its receiver is: with a sequencer or a dispatcher that was
//     stopped by a failure, or a receiver that panics, so does [Consumer.Run].
//   - In order to the end: a consumer that stops closes its channel only when
//     what it runs is acknowledged, and the broker has had time to take that in. It sends no basic.cancel before that, which
//     would wake the next consumer of a single-active quorum queue too early.
//
// With a [Receiver] of [Events] or [Owner], and a store that keeps effect and
// numbers in one transaction, every event has its effect exactly once, in the
// order of its numbers. With [Messages] it is at least once.
//
// # Several processes
//
// Divide the keys into [Partitions], each with a single-active queue, and let
// every process consume all of them with one [Consumer] and one [Owner] each, on
// a store that they share. The broker lets one process at a time have a queue;
// when that leaves or dies the next one goes on. The broker does not wait for
// the handlers of one that it has lost sight of, so both may be at work for a
// moment: then the store refuses the commits of the one before, which has lost
// its streams to the other. [Partitions.Owns] tells a sequencer which streams
// are its own when it begins.
//
// No consumer of such a queue may have a priority. RabbitMQ 4 makes one with a
// higher priority the active one without closing the channel of the one before,
// which does not learn of it: it would be at work beside the other for as long as
// it has messages, and might be the active one again later, with what it knew of
// the streams. An [Owner] with a priority is refused. That of somebody else's
// program cannot be seen; it is found when the store refuses a commit, which ends
// the term.
//
// An event has all its streams in one partition, or it is refused. Give an outbox
// [Partitions.Check], so that it is refused before its transaction is committed
// and not after.
//
// # What the broker does
//
// Measured with RabbitMQ 3.10, one node:
//
//   - A quorum queue that is some seconds old or less when the broker is killed
//     may be dead ever after: it can be declared, but confirms nothing, and what
//     it had confirmed is gone. Only deleting it helps. Declare queues before
//     they are needed. Publishing to such a queue is tried again every
//     ConfirmTimeout, with a warning in the log, until the context ends; other
//     queues are not held up unless so many messages wait that the channel's
//     window is full.
//   - What was acknowledged up to about a second before the broker is killed
//     comes again from a classic queue, not from a quorum queue.
//   - What was acknowledged one by one right before a channel or connection is
//     closed in good order comes again from a quorum queue, up to all but some
//     thirty of them. A consumer that stops waits for that, a tenth of a second
//     or ten times as long as the broker takes to answer.
//   - A broker that is short of memory or disk stops reading from connections
//     that publish. The publisher then sends nothing, waits without giving the
//     connection up, and goes on when the broker does.
//   - When the broker closes a channel because of a message, for an exchange
//     that does not exist say, it does not tell which one. The publisher opens
//     another channel and sends what is unconfirmed one at a time until it knows,
//     so one such message costs up to a window of round trips.
//   - A channel that was told that a queue refuses messages, as one that is full
//     may, goes on refusing them when the queue does not any more. The publisher
//     opens another one after some refusals.
//   - A queue, exchange or binding that is deleted while there is a connection
//     makes messages come back. If it is part of the topology, the publisher
//     declares that again, once, and sends them again.
//   - A header of the name CC or BCC that is a string makes the broker refuse
//     the message.
//   - What is not acknowledged for 30 minutes, by default, ends the channel. All
//     that it had comes again, on the next one. That is also how long a consumer
//     waits on one channel for a store that is away.
//   - basic.get, which some tools use to look into a queue, does not work with a
//     quorum queue with a single active consumer.
//
// Clusters of several nodes, a loss of power and later versions were not tested.
//
// # Delivery limits
//
// RabbitMQ 4 has a delivery limit of 20 for quorum queues by default, and older
// ones have one if it is declared: what came back to the queue more often is
// dropped, or published to the queue's dead-letter exchange. Each lost connection
// and each consumer that stops counts, for all messages that were on the way to it
// or with it; a store that is away does not, since the channel is kept; and where
// a message is returned again and again, for another process has its stream, for
// example, the pauses between grow to a minute. Give such a queue a limit that your
// outages do not reach, [Queue.DeliveryLimit], and an exchange for what reaches it
// all the same, [Queue.DeadLetter]. The log warns, and [ConsumerStats.NearLimit]
// counts, when a message has used up half of its queue's limit, or has come back
// ten times if no limit is known, and for each channel that is lost where that
// counts. A limit that is set by a policy is not known.
package rabbitmq
