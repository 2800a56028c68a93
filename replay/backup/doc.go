// Package backup keeps events flowing while a broker is down: they go over HTTP
// to the consumer itself, and both channels feed the same sequencer.
//
// On the producer's side a [Publisher] stands between the outbox and the two
// channels. It gives each event to the primary, and to the backup if the
// primary does not take it:
//
//	client, err := backup.NewClient(backup.ClientConfig{URL: "https://ledger/events", Key: key})
//	publisher, err := backup.NewPublisher(backup.PublisherConfig{Primary: broker, Backup: client})
//	relay, err := outbox.NewRelay(box, publisher, outbox.RelayConfig{})
//
// On the consumer's side a [Handler] offers what comes to the sequencer that
// has the broker's events too, and answers once that has them for good:
//
//	handler, err := backup.NewHandler(backup.HandlerConfig{Sink: sequencer, Keys: []backup.Key{key}})
//	mux.Handle("/events", handler)
//	mux.Handle("/healthz", backup.Health())
//	mux.Handle("/readyz", ready) // of NewReady
//
// # What is promised
//
//   - Nothing is lost: an event counts as sent when a channel has confirmed it,
//     and the backup confirms what is applied, or held, durably. Otherwise the
//     relay sends it again.
//   - Nothing is doubled: an event may come by both channels, since one that
//     the primary did not confirm in time may be in its queue all the same. The
//     sequencer drops what it has, by its numbers.
//   - Order is that of the numbers, whichever way they came. What overtakes an
//     event that is stuck in a dead broker waits for it; so give the sequencer a
//     Replayer that asks the producer's outbox, through package httpreplay for
//     example, and it need not wait until the broker is back. Such an event is
//     confirmed after the sequencer's GapTimeout at the earliest.
//   - What the broker has confirmed, and nobody has received when it dies, comes
//     when the broker is back, or something on its streams overtakes it; or at
//     once, as far as [PublisherConfig.Resend] reaches.
//   - The switch is quick. If the primary says that it failed, or
//     [PublisherConfig.Alive] does, the event goes to the backup at once, also
//     one that is waiting in the primary; otherwise after
//     [PublisherConfig.Timeout].
//   - The switch back needs nobody: single events try the primary every
//     [PublisherConfig.Probe], or Alive tells.
//
// The primary has to return when its context ends, as [outbox.Publisher] says.
//
// # Protocol, version 1
//
// A request is a POST of the type application/json, with events as package
// ordering writes them in JSON, at least one:
//
//	{"version": 1,
//	 "events": [{"id": "…", "positions": [{"stream": "client/42", "number": 5}], …}, …]}
//
// Nothing of it may be read in two ways: names of fields are in lower case, no
// name comes twice in an object, and all text is UTF-8, with surrogates in pairs
// where it is escaped. It may be repeated, also after it was answered. The answer has the status 200
// and a result for each event, in their order:
//
//	{"version": 1, "results": [{"result": "applied"}, {"result": "refused", "message": "…"}, …]}
//
//	applied        done: its effect is durable
//	duplicate      done: it was there already
//	held           done: it cannot run now, and the receiver keeps it
//	dead-lettered  done: it failed for good, which the receiver has recorded
//	refused        it can never run, so it is of no use to send it again
//	unfinished     nothing was recorded: send it again
//	pending        it was taken, and nothing is recorded yet: send it again
//
// What is pending goes on in the receiver; sent again, it is answered once the
// first one has its outcome. The messages are for people.
//
// Any other status says that no event of the request was taken, with the index
// of the event at fault, from 0, where there is one:
//
//	{"version": 1, "error": {"code": "bad_event", "message": "events[3]: …", "event": 3}}
//
//	400 bad_request   the request is not one of this protocol; or it was cut off
//	400 bad_version   the receiver does not know the request's version
//	400 bad_event     an event does not parse, has fields that are not known, or is not valid
//	401 unauthorised  the signature or the token is missing or wrong, or the clocks differ
//	405 bad_method    the method is not POST
//	408 too_slow      the body did not come in time
//	413 too_large     the body is too long, or there are too many events
//	415 bad_type      the type is not application/json
//	429 too_many      too many events a second; with Retry-After
//	503 busy          too many requests at a time; with Retry-After
//	503 unavailable   the sink takes nothing: it has ended or failed; with Retry-After
//
// A response that is not of this form, a proxy's for example, leaves open what
// became of the events.
//
// # Signatures and tokens
//
// A request has a bearer token, or it is signed with a key that both sides have:
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
// Whoever cannot sign is not told, nor shown by what is read of the request,
// whether there is a key of that ID. A request is served, and takes one of the
// places that are bounded, once its signature or token is found right; see
// [HandlerConfig].
//
// The receiver refuses a time that is further than its MaxSkew from its own
// clock, so a request that was overheard is of use for that long, and only to
// send the same events once more, which the sequencer drops. Host and path are
// not signed, so that proxies may change them: give each receiver a key of its
// own. A receiver has several keys and tokens at a time so that they can be
// changed: add the new one to all receivers, then give it to the senders, then
// take the old one away.
//
// Answers are not signed, and nothing is encrypted: use TLS, through the
// [net/http.Client] and the [net/http.Server], where the network is not
// trusted, and always with tokens.
package backup
