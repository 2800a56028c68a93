// Package httpreplay asks for events over HTTP: a [Client] is a
// [replay.Source] whose events are on another machine, and a [Server] answers
// from any source there, a producer's outbox or event log for example.
//
// # Protocol, version 1
//
// A request is a GET with the parameters below, each exactly once, and no
// others. It changes nothing and may be repeated.
//
//	version  1
//	stream   the stream's key in its text form, client/42 for example
//	from     the first number asked for, at least 1
//	to       the last number, at least from
//
// The answer has the status 200, the type application/json and this body, with
// events as package ordering writes them in JSON:
//
//	{"version": 1,
//	 "events":  [{"id": "…", "positions": [{"stream": "client/42", "number": 5}], …}, …],
//	 "no_such": [{"stream": "client/42", "from": 6, "to": 7}]}
//
// Nothing of it may be read in two ways: names of fields are in lower case, no
// name comes twice in an object, and all text is UTF-8, with surrogates in pairs
// where it is escaped.
//
// An answer may be for a part of the range: the client asks again for the rest. A range may
// be of any width. It is not narrowed, since what is not retained at its
// beginning would then hide what is there behind it; so the number of events in
// an answer and its size are bounded, but not the range.
//
// Any other status has a body that says why, where the message is for people:
//
//	{"version": 1, "error": {"code": "not_retained", "message": "…"}}
//
//	400 bad_request    the request is not one of this protocol
//	400 bad_version    the server does not know the request's version
//	401 unauthorised   the signature is missing or wrong, or the clocks differ
//	404 not_assigned   replay.ErrNotAssigned: no event has these numbers yet
//	405 bad_method     the method is not GET
//	410 not_retained   replay.ErrNotRetained: the events are not kept any more
//	429 too_many       too many requests at a time; with Retry-After
//	500 failed         the source failed
//	500 too_large      one event is larger than an answer may be
//	503 unavailable    the source asks for patience; with Retry-After
//	504 timeout        the source took too long
//
// That numbers never existed is said in an answer and is final, if the client
// takes the server for the producer's own; not_retained and not_assigned leave
// them unanswered. The client does not repeat what had a status from 300 to
// 499 other than 404 not_assigned, 408, 425 and 429, or was too large: such an
// error is marked by [dispatcher.Permanent]. It does not follow redirects.
//
// # Signatures
//
// Requests are signed with a key that both sides have:
//
//	Authorization: Interlock-HMAC-SHA256 key=ID,time=UNIX,signature=HEX
//
// where the signature is the HMAC-SHA256 of these lines, joined by a line feed
// and with none at the end; the query has its parameters sorted by name and
// escaped as [net/url.Values.Encode] does:
//
//	interlock-replay-1
//	GET
//	UNIX, seconds since 1970
//	from=5&stream=client%2F42&to=7&version=1
//
// Whoever cannot sign is not told whether there is a key of that ID, and takes no
// place from others. The server refuses a time that is further than its MaxSkew
// from its own clock, so a request that was overheard is of use for that long,
// and only to ask for the same events, of any server that has the key. A server
// has several keys at a time so that they can be changed: add the new one to all
// servers, then give it to the clients, then take the old one away. Host and path are not signed, so that proxies may
// change them.
//
// Answers are not signed, and nothing is encrypted: use TLS, through the
// [net/http.Client] and the [net/http.Server], where the network is not
// trusted.
package httpreplay
