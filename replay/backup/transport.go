package backup

import (
	"net/http"
	"time"
)

// idleConnections is how many connections are kept for the next requests.
const idleConnections = 64

// newTransport returns a transport for a client's own use, like the default one.
// A connection of HTTP/2 serves all requests, and those that end at their
// time-out do not end it: it is asked whether it is alive, and closed within
// half that time if it is not.
func newTransport(timeout time.Duration) *http.Transport {
	t, ok := http.DefaultTransport.(*http.Transport)
	if ok {
		t = t.Clone()
	} else { // the program has put another one there
		t = &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
			IdleConnTimeout: 90 * time.Second, ExpectContinueTimeout: time.Second,
		}
	}
	t.MaxIdleConns, t.MaxIdleConnsPerHost = idleConnections, idleConnections
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: timeout / 4, PingTimeout: timeout / 4}
	return t
}
