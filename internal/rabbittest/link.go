package rabbittest

import (
	"cmp"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/interlock-go/interlock/internal/tcplink"
)

// Link is a network between clients and a node that can break. Its methods may
// be called concurrently.
type Link struct {
	*tcplink.Link

	mu struct {
		sync.Mutex
		stalled bool
	}
}

// Link returns a link to the node that ends with the test.
func (n *Node) Link(t testing.TB) *Link {
	t.Helper()
	l, err := n.NewLink()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// NewLink is Link outside of tests; Close ends it.
func (n *Node) NewLink() (l *Link, err error) {
	l = &Link{}
	l.Link, err = tcplink.New(n.addr(),
		func(line *tcplink.Line) { l.pipe(line, line.Server, line.Client) },
		func(line *tcplink.Line) { l.pipe(line, line.Client, line.Server) })
	return l, err
}

// URL returns the address for clients that connect through the link.
func (l *Link) URL() string { return url(l.Addr()) }

// Cut resets all connections, and new ones too until Mend.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.stalled = false
	l.Link.Cut()
}

// Stall makes the network silent until Mend: all data is dropped and no connection
// ends, so that only heartbeats notice.
func (l *Link) Stall() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.stalled = true
	l.Link.Mend()
}

// Mend ends Cut or Stall. Connections that may have lost data are reset.
func (l *Link) Mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.stalled {
		l.Reset()
	}
	l.mu.stalled = false
	l.Link.Mend()
}

// pipe copies data in one direction.
func (l *Link) pipe(line *tcplink.Line, to, from *net.TCPConn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if l.isStalled() {
			if err != nil {
				return // without telling the other side
			}
			continue
		}
		if n > 0 {
			_, failed := to.Write(buffer[:n])
			err = cmp.Or(failed, err)
		}
		switch err {
		case nil:
		case io.EOF:
			_ = to.CloseWrite()
			return
		default:
			line.Reset()
			return
		}
	}
}

func (l *Link) isStalled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.stalled
}
