// Package httpreplay requests events over HTTP: a [Client] is a [replay.Source]
// for events on another machine, and a [Server] there answers from any source, a
// producer's outbox or event log for example.
//
// # Protocol, version 1
//
// A request is a GET with the parameters below, each exactly once but for epoch and
// before, which are there unless they are 0, and no others. It changes nothing and may be
// repeated.
//
//	version  1
//	stream   the stream's key in its text form, client/42 for example
//	epoch    the epoch of the numbers, from 1 to 65535
//	from     the first number asked for, at least 1
//	to       the last number, at least from
//	before   how many other events are welcome that those wait for, from 1 to 65535
//
// A server refuses parameters that it does not know, so bring servers up to date before
// their clients.
//
// The answer has the status 200, the type application/json and this body, with
// events as package ordering writes them in JSON:
//
//	{"version": 1,
//	 "events":  [{"id": "…", "positions": [{"stream": "client/42", "number": 5}], …}, …],
//	 "before":  [{"id": "…", "positions": [{"stream": "client/41", "number": 3}], …}, …],
//	 "no_such": [{"stream": "client/42", "from": 6, "to": 7}]}
//
// where a position, and a range, has its "epoch" unless that is 0, and before is there
// only if the request has it; see [replay.Answer].Before.
//
// The JSON must be unambiguous: names of fields are in lower case, no name occurs
// twice in an object, and all text is UTF-8, with escaped surrogates in pairs.
//
// An answer may cover a part of the range: the client then requests the rest. A
// range may have any width. The client does not narrow it, since events at its
// beginning that are not retained would then hide later ones that are; so the
// number of events in an answer and its size are bounded, but not the range.
//
// Any other status has a body with the reason; its message is for people:
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
//	503 unavailable    the source is to be asked later; with Retry-After
//	504 timeout        the source took too long
//
// A range in no_such is final, unless the client's server is marked as a copy,
// see [replay.NamedSource]; not_retained and not_assigned leave numbers
// unanswered. Errors for a status from 300 to 499 other than 404 not_assigned, 408,
// 410 not_retained, 425 and 429, and for answers that are too large, are marked by
// [dispatcher.Permanent], so that the request is not repeated. The client does not
// follow redirects.
//
// # Signatures
//
// Requests are signed with a shared key:
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
// A client that cannot sign does not learn whether there is a key of an ID, and
// takes no slot from others. The server refuses a time further than its MaxSkew
// from its own clock, so an intercepted request can be replayed for that long, and
// only to get the same events, from any server that has the key. A server can have
// several keys, so that they can be changed: add the new one to all servers, then
// give it to the clients, then remove the old one. Host and path are not signed,
// so that proxies may change them.
//
// Answers are not signed, and nothing is encrypted: use TLS, through the
// [net/http.Client] and the [net/http.Server], where the network is not
// trusted.
package httpreplay
