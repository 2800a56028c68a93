// Package httppool makes the transports of HTTP clients that make many requests to one
// server at a time.
package httppool

import (
	"net/http"
	"time"
)

// idleConnections is the number of idle connections kept. The default transport keeps
// two to a server, so of many requests at a time most would open one each.
const idleConnections = 64

// New returns a transport for one client, like the default one. Idle connections are
// closed after 90 s, or by its CloseIdleConnections. A
// connection of HTTP/2 serves all requests, and is not closed by those that time
// out: so it is checked by pings, and closed within half the timeout if there is
// no answer.
func New(timeout time.Duration) *http.Transport {
	t, ok := http.DefaultTransport.(*http.Transport)
	if ok {
		t = t.Clone()
	} else { // the program has replaced it
		t = &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
			IdleConnTimeout: 90 * time.Second, ExpectContinueTimeout: time.Second,
		}
	}
	t.MaxIdleConns, t.MaxIdleConnsPerHost = idleConnections, idleConnections
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: timeout / 4, PingTimeout: timeout / 4}
	return t
}
