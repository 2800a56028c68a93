// Package rabbitmq connects dispatchers and sequencers to RabbitMQ: a
// [Publisher] that reports the outcome of each event, a [Consumer] that
// acknowledges a message when its effect is durable, the [Topology] that both
// expect, and [Partitions] for a service that runs in several processes. It is
// built on the client github.com/rabbitmq/amqp091-go.
//
// # Events as messages
//
// [Message] converts an [ordering.Event] to a message, and [EventOf] converts
// it back, without loss:
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
// All headers and properties of a message must fit in one frame, 128 KiB unless
// broker or client are set to less. The publisher refuses larger ones.
//
// Messages of other programs are accepted as they are: headers and properties
// that an event cannot hold are left out, see [EventOf], and those that the
// client cannot even read are dropped by [Dial], see [DroppedHeader].
//
// # Connections
//
// Each consumer and publisher has a connection of its own, to one of its
// addresses. A lost connection is dialled again, with the back-off
// [Endpoint.Backoff], and the topology is declared on each new one; so
// everything works again about a second after the broker does. The loss of a
// killed broker is noticed within tens of milliseconds; that of a silent network
// or a frozen broker after one and a half heartbeats, 15 seconds by default, or
// when an answer takes longer than [Endpoint.AnswerTimeout], or a confirmation
// longer than [PublisherConfig.ConfirmTimeout]. Each failed attempt is logged as
// a warning, and a new connection with the duration of the outage. Ready, and
// the errors of events that were not published for lack of a connection or a
// channel, wrap the reason: an [*amqp.Error] for a wrong password or vhost, or
// for more channels than the broker allows.
//
// A topology that the broker refuses, since it contradicts existing queues or
// exchanges, ends a consumer or publisher with a [*TopologyError] if it was
// never declared successfully. Otherwise it is tried again, since somebody may
// be changing it.
//
// # Promises of publishing
//
//   - Confirmed means queued: nil means that the broker has the message in at
//     least one queue, on disk. A message that no queue gets is an error.
//   - In order: see [Publisher]. Messages with the same key use the same channel
//     and are sent again in order, so their first appearances in a queue are in
//     order over any number of lost connections and crashes of the broker.
//   - At least once: a message whose confirmation was lost is sent again and may
//     be in the queue twice. Its numbers make that harmless to an
//     [ordering.Sequencer].
//   - Bounded: at most Channels × Window messages are in memory; further calls
//     wait, for as long as their contexts allow.
//   - Every call ends with its context, within some milliseconds, also while the
//     broker is down, out of memory, or silent.
//
// # Promises of consuming
//
//   - Acknowledged when durable: a message leaves the queue once its effect is
//     durable, or the store holds it, or it is confirmed as a dead letter. Several
//     are acknowledged in one step: at once if nothing else is being processed, and
//     else when they are an eighth of the window, or after a millisecond or two.
//   - On its own channel: a delivery is acknowledged on the channel that it came
//     by, or not at all. On a later one its tag would mean another message.
//   - Never rejected: a message that is rejected with requeue goes to the back of
//     a quorum queue. Retries are the dispatcher's, in memory, with the keys
//     held.
//   - Run once at a time: a redelivery joins its first copy, if that has not
//     ended yet.
//   - Not blocked: messages that can never run and parked streams do not stay in
//     the window, and early events take half of it at most. Dead letters that
//     cannot be published wait outside the window, at most
//     [ConsumerConfig.MaxStuck]; beyond that the queue stands still. Their headers
//     are cut to leave room for the reason. [Consumer.Ready], [ConsumerStats] and
//     the log report them.
//   - Reported: the parts of messages that are left out, and the dead letters with
//     their reasons, are counted, and logged every ten seconds at most.
//   - Resumed: after lost connections, crashes of the broker, a deleted queue or a
//     cancelled consumer, everything is declared and consumed again. If the store
//     is unavailable when a message is offered, the message is kept, with those
//     behind it, until the store accepts it.
//   - Ended with its receiver: [Consumer.Run] ends when its sequencer or
//     dispatcher was stopped by a failure, or its receiver panics.
//   - In order to the end: a consumer that stops closes its channel only when its
//     running messages are acknowledged and the broker has had time to process
//     that. It sends no basic.cancel before, which would activate the next
//     consumer of a single-active quorum queue too early.
//
// With a [Receiver] of [Events] or [Owner], and a store that commits effect and
// numbers in one transaction, every event takes effect exactly once, in the
// order of its numbers. With [Messages] it is at least once.
//
// # Several processes
//
// Divide the keys into [Partitions], each with a single-active queue, and let
// every process consume all of them with one [Consumer] and one [Owner] each, on
// a shared store. The broker gives a queue to one process at a time; when that
// leaves or dies, the next one goes on. The broker does not wait for the handlers
// of a process whose connection it has lost, so both may work for a moment: then
// the store refuses the commits of the earlier one, whose streams were taken over
// by the later one. [Partitions.Owns] tells a sequencer which streams are its own
// when it begins.
//
// No consumer of such a queue may have a priority. RabbitMQ 4 activates a consumer
// with a higher priority without closing the channel of the previous one, which
// is not notified: it would work beside the other for as long as it has messages,
// and might be activated again later, with outdated knowledge of the streams. An
// [Owner] with a priority is refused. The priority of another program cannot be
// seen; it is noticed when the store refuses a commit, which ends the term.
//
// An event has all its streams in one partition, or it is refused. Give an outbox
// [Partitions.Check], so that it is refused before its transaction is committed
// and not after.
//
// # Behaviour of the broker
//
// Measured with RabbitMQ 3.10, one node:
//
//   - A quorum queue that is at most some seconds old when the broker is killed
//     may never work again: it can be declared, but confirms nothing, and its
//     confirmed messages are lost. Only deleting it helps. Declare queues before
//     they are needed. Publishing to such a queue is tried again every
//     ConfirmTimeout, with a warning in the log, until the context ends; other
//     queues are not delayed unless so many messages wait that the channel's
//     window is full.
//   - Messages acknowledged up to about a second before the broker is killed
//     are redelivered by a classic queue, not by a quorum queue.
//   - Messages acknowledged one by one right before a channel or connection is
//     closed properly are redelivered by a quorum queue, all but some thirty of
//     them in the worst case. A consumer that stops waits for that, a tenth of a
//     second or ten times as long as the broker takes to answer.
//   - A broker that is short of memory or disk stops reading from publishing
//     connections. The publisher then sends nothing, keeps the connection, and
//     continues when the broker does.
//   - When the broker closes a channel because of a message, for an exchange that
//     does not exist say, it does not tell which one. The publisher opens another
//     channel and sends unconfirmed messages one at a time until it is known, so
//     one such message costs up to a window of round trips.
//   - A channel on which a queue, a full one for example, has refused a message
//     goes on refusing when the queue accepts messages again. The publisher opens
//     another one after some refusals.
//   - A queue, exchange or binding that is deleted while there is a connection
//     makes messages come back. If it is part of the topology, the publisher
//     declares that again, once, and sends them again.
//   - A header named CC or BCC that is a string makes the broker refuse the
//     message.
//   - A message not acknowledged for 30 minutes, by default, ends its channel. All
//     messages of the channel are redelivered, on the next one. That is also how
//     long a consumer waits on one channel for an unavailable store.
//   - basic.get, which some tools use to look into a queue, does not work with a
//     quorum queue with a single active consumer.
//
// Clusters of several nodes, a loss of power and later versions were not tested.
//
// # Delivery limits
//
// RabbitMQ 4 has a delivery limit of 20 for quorum queues by default, older
// versions only a declared one: a message that has returned to the queue more
// often is dropped, or published to the queue's dead-letter exchange. Each lost
// connection and each consumer that stops counts, for all messages that were on
// the way to it or with it. An unavailable store does not, since the channel is
// kept; and where messages are returned again and again, because another process
// has their stream for example, the pauses between grow to a minute. Give such a
// queue a limit that your outages do not reach, [Queue.DeliveryLimit], and a
// dead-letter exchange all the same, [Queue.DeadLetter]. The log warns, and
// [ConsumerStats.NearLimit] counts, when a message has used up half of its queue's
// limit, or has returned ten times if no limit is known; the log also warns of
// each lost channel, where that counts. A limit set by a policy is not known.
//
// # Messages that end the process
//
// A message whose event ends the process, by its use of memory for example, is
// redelivered first, and marked as redelivered by the broker, which is
// [ordering.Event.Delivery]. After some runs the sequencer gives it up by its
// policy, see [ordering.Config.MaxCrashes]: with the default of 5 the process ends
// six times. Each time counts for the delivery limit of all messages that were on
// the way. With a plain dispatcher, see [Messages], such runs are not counted:
// only the delivery limit of the queue ends them.
package rabbitmq
