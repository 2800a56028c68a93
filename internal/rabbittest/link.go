package rabbittest

import (
	"cmp"
	"io"
	"net"
	"sync"
	"testing"
)

// Link is a network between clients and a node that can break. Its methods may
// be called concurrently.
type Link struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu struct {
		sync.Mutex
		state state
		lines map[*line]struct{} // none when cut
	}
}

type state int

const (
	open state = iota
	stalled
	cut
)

// line is the two halves of a connection.
type line struct{ client, node *net.TCPConn }

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
func (n *Node) NewLink() (*Link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Link{target: n.addr(), listener: listener}
	l.mu.lines = map[*line]struct{}{}
	l.running.Go(l.accept)
	return l, nil
}

// URL returns the address for clients that connect through the link.
func (l *Link) URL() string { return url(l.listener.Addr().String()) }

// Cut resets all connections, and new ones too until Mend.
func (l *Link) Cut() { l.become(cut) }

// Stall makes the network silent until Mend: all data is dropped and no connection
// ends, so that only heartbeats notice.
func (l *Link) Stall() { l.become(stalled) }

// Mend ends Cut or Stall. Connections that may have lost data are reset.
func (l *Link) Mend() { l.become(open) }

func (l *Link) become(s state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s == cut || l.mu.state == stalled && s == open {
		for line := range l.mu.lines {
			line.reset()
		}
		clear(l.mu.lines)
	}
	l.mu.state = s
}

// Close resets all connections and ends the link.
func (l *Link) Close() {
	_ = l.listener.Close()
	l.Cut()
	l.running.Wait()
}

func (l *Link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.running.Go(func() { l.carry(client.(*net.TCPConn)) })
	}
}

// carry serves a connection until both sides have closed it or it is reset.
func (l *Link) carry(client *net.TCPConn) {
	node, err := net.Dial("tcp", l.target)
	if err != nil {
		reset(client)
		return
	}
	line := &line{client, node.(*net.TCPConn)}
	if !l.add(line) {
		line.reset()
		return
	}
	var back sync.WaitGroup
	back.Go(func() { l.pipe(line, line.client, line.node) })
	l.pipe(line, line.node, line.client)
	back.Wait()
	l.remove(line)
}

// pipe copies data in one direction.
func (l *Link) pipe(line *line, to, from *net.TCPConn) {
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
			line.reset()
			return
		}
	}
}

func (l *Link) isStalled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.state == stalled
}

func (l *Link) add(line *line) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.state == cut {
		return false
	}
	l.mu.lines[line] = struct{}{}
	return true
}

// remove closes a line that has ended.
func (l *Link) remove(line *line) {
	l.mu.Lock()
	delete(l.mu.lines, line)
	l.mu.Unlock()
	_ = line.client.Close()
	_ = line.node.Close()
}

func (l *line) reset() {
	reset(l.client)
	reset(l.node)
}

// reset closes a connection by a TCP reset: the other side gets an error at once.
// On a closed one it does nothing.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}
