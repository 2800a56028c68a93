// Package tcplink is the network between the clients and the server of a test: a TCP
// proxy of which connections can be reset.
package tcplink

import (
	"net"
	"sync"
)

// Link carries the connections of clients to a server. Its methods may be called
// concurrently.
type Link struct {
	target   string
	there    func(*Line)
	back     func(*Line)
	listener net.Listener
	running  sync.WaitGroup

	mu struct {
		sync.Mutex
		cut   bool
		lines map[*Line]struct{} // none when cut
	}
}

// Line is a connection: the two halves of it.
type Line struct{ Client, Server *net.TCPConn }

// New returns a link to the address of a server. For each connection it calls there,
// which carries what the client sends, and at the same time back, which carries what
// the server sends. When both have returned the connection is closed. Close ends the
// link.
func New(target string, there, back func(*Line)) (*Link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Link{target: target, there: there, back: back, listener: listener}
	l.mu.lines = map[*Line]struct{}{}
	l.running.Go(l.accept)
	return l, nil
}

// Addr returns the address for clients.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// Reset resets all connections.
func (l *Link) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resetLocked()
}

// Cut resets all connections, and new ones too until Mend.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.cut = true
	l.resetLocked()
}

// Mend ends Cut.
func (l *Link) Mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.cut = false
}

// Close resets all connections and ends the link.
func (l *Link) Close() {
	_ = l.listener.Close()
	l.Cut()
	l.running.Wait()
}

func (l *Link) resetLocked() {
	for line := range l.mu.lines {
		line.Reset()
	}
	clear(l.mu.lines)
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

func (l *Link) carry(client *net.TCPConn) {
	server, err := net.Dial("tcp", l.target)
	if err != nil {
		Reset(client)
		return
	}
	line := &Line{client, server.(*net.TCPConn)}
	if !l.add(line) {
		line.Reset()
		return
	}
	var back sync.WaitGroup
	back.Go(func() { l.back(line) })
	l.there(line)
	back.Wait()
	l.remove(line)
}

func (l *Link) add(line *Line) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.cut {
		return false
	}
	l.mu.lines[line] = struct{}{}
	return true
}

// remove closes a line that has ended.
func (l *Link) remove(line *Line) {
	l.mu.Lock()
	delete(l.mu.lines, line)
	l.mu.Unlock()
	_ = line.Client.Close()
	_ = line.Server.Close()
}

// Reset resets both halves.
func (l *Line) Reset() {
	Reset(l.Client)
	Reset(l.Server)
}

// Reset closes a connection by a TCP reset: the other side gets an error at once.
// On a closed one it does nothing.
func Reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}
