// Package backup keeps events flowing while a broker is down: they go over HTTP
// to the consumer itself, and both channels feed the same sequencer.
//
// On the producer's side a [Publisher] is between the outbox and the two
// channels. It publishes each event through the primary, and through the backup
// if the primary fails:
//
//	client, err := backup.NewClient(backup.ClientConfig{URL: "https://ledger/events", Key: key})
//	publisher, err := backup.NewPublisher(backup.PublisherConfig{Primary: broker, Backup: client})
//	relay, err := outbox.NewRelay(box, publisher, outbox.RelayConfig{})
//
// On the consumer's side a [Handler] offers the events to the sequencer that also
// gets the broker's events, and answers once it has them durably:
//
//	handler, err := backup.NewHandler(backup.HandlerConfig{Sink: sequencer, Keys: []backup.Key{key}})
//	mux.Handle("/events", handler)
//
// Package health serves the readiness of such a receiver.
//
// # Promises
//
//   - No loss: an event counts as sent when a channel has confirmed it, and the
//     backup confirms events that are applied, or held, durably. Otherwise the
//     relay sends it again.
//   - No double effects: an event may come through both channels, since one that
//     the primary did not confirm in time may be in its queue all the same. The
//     sequencer drops duplicates by their numbers.
//   - Order by numbers, whatever the channel. Events that overtake one stuck in a
//     dead broker wait for it; so give the sequencer a Replayer that asks the
//     producer's outbox, through package httpreplay for example, so that they need
//     not wait until the broker is back. Such an event is confirmed after the
//     sequencer's GapTimeout at the earliest.
//   - Events that the broker has confirmed and not delivered when it dies come
//     when it is back, or when a later event on their streams shows that they are
//     missing; or at once, as far as [PublisherConfig.Resend] reaches.
//   - Quick failover: when the primary fails, or [PublisherConfig.Alive] reports a
//     failure, the event goes to the backup at once, also one that is waiting in
//     the primary; otherwise after [PublisherConfig.Timeout].
//   - Automatic return: single events try the primary every
//     [PublisherConfig.Probe], or Alive reports that it works.
//
// The primary must return when its context ends, as [outbox.Publisher] requires.
//
// # Protocol, version 1
//
// A request is a POST of the type application/json, with events as package
// ordering writes them in JSON, at least one:
//
//	{"version": 1,
//	 "events": [{"id": "…", "positions": [{"stream": "client/42", "number": 5}], …}, …]}
//
// The JSON must be unambiguous: names of fields are in lower case, no name occurs
// twice in an object, and all text is UTF-8, with escaped surrogates in pairs. A
// request may be repeated, also after its answer. The answer has the status 200
// and a result for each event, in their order:
//
//	{"version": 1, "results": [{"result": "applied"}, {"result": "refused", "message": "…"}, …]}
//
//	applied        done: its effect is durable
//	duplicate      done: it was applied before
//	held           done: it cannot run now, and the receiver keeps it
//	dead-lettered  done: it failed for good, which the receiver has recorded
//	refused        it can never run: do not send it again
//	unfinished     nothing was recorded: send it again
//	pending        it was accepted, and nothing is recorded yet: send it again
//
// A pending event goes on in the receiver; if it is sent again, it is answered
// with the outcome of the first one. The messages are for people.
//
// Any other status means that no event of the request was accepted; the body has
// the index of the event at fault, from 0, if there is one:
//
//	{"version": 1, "error": {"code": "bad_event", "message": "events[3]: …", "event": 3}}
//
//	400 bad_request   the request is not one of this protocol; or it was cut off
//	400 bad_version   the receiver does not know the request's version
//	400 bad_event     an event does not parse, has unknown fields, or is not valid
//	401 unauthorised  the signature or the token is missing or wrong, or the clocks differ
//	405 bad_method    the method is not POST
//	408 too_slow      the body did not come in time
//	413 too_large     the body is too long, or there are too many events
//	415 bad_type      the type is not application/json
//	429 too_many      too many events a second; with Retry-After
//	503 busy          too many requests at a time; with Retry-After
//	503 unavailable   the sink accepts nothing: it has ended or failed; with Retry-After
//
// After a response that is not of this form, a proxy's for example, the outcome of
// the events is unknown.
//
// # Signatures and tokens
//
// A request has a bearer token, or it is signed with a shared key:
//
//	Authorization: Bearer TOKEN
//	Authorization: Interlock-HMAC-SHA256 key=ID,time=UNIX,signature=HEX
//
// where the signature is the HMAC-SHA256 of these lines, joined by a line feed
// and with none at the end:
//
//	interlock-backup-1
//	POST
//	UNIX, seconds since 1970
//	the SHA-256 of the body, 64 hexadecimal digits in lower case
//
// A sender that cannot sign does not learn whether there is a key of an ID, nor
// does the amount that is read of its request reveal it. A request is served, and
// takes one of the limited slots, once its signature or token is verified; see
// [HandlerConfig].
//
// The receiver refuses a time further than its MaxSkew from its own clock, so an
// intercepted request can be replayed for that long, and only with the same
// events, which the sequencer drops. Host and path are not signed, so that proxies
// may change them: give each receiver a key of its own. A receiver can have
// several keys and tokens, so that they can be changed: add the new one to all
// receivers, then give it to the senders, then remove the old one.
//
// Answers are not signed, and nothing is encrypted: use TLS, through the
// [net/http.Client] and the [net/http.Server], where the network is not
// trusted, and always with tokens.
package backup
