package pgtest

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/tcplink"
)

// Link is a network between clients and a server that counts round trips, has a
// length, can break between two messages, and can be slow for a while. Its methods may be called concurrently.
type Link struct {
	link  *tcplink.Link
	delay time.Duration
	trips atomic.Int64
	slow  atomic.Int64 // of Slow, in nanoseconds

	mu struct {
		sync.Mutex
		armed bool
		left  int           // messages that pass until it breaks, if armed
		late  chan struct{} // closed when what comes after that reaches the server; or nil, for never
	}
}

// NewLink returns a link to the server of a database, for clients that connect to the
// URL returned. Each message takes the delay for its way, and any number can be under
// way at once. Close ends the link.
func NewLink(database string, delay time.Duration) (l *Link, through string, err error) {
	u, err := url.Parse(database)
	if err != nil {
		return nil, "", err
	}
	l = &Link{delay: delay}
	if l.link, err = tcplink.New(u.Host, l.requests, l.answers); err != nil {
		return nil, "", err
	}
	u.Host = l.link.Addr()
	return l, u.String(), nil
}

// Link is NewLink for tests, without a delay.
func (s *Server) Link(t testing.TB, database string) (l *Link, through string) {
	t.Helper()
	l, through, err := NewLink(database, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l, through
}

// RoundTrips returns how often the server has told a client that it has done all that
// it was asked for, without those of connecting.
func (l *Link) RoundTrips() int64 { return l.trips.Load() }

// Slow makes each answer of the server take that much longer from now on, to all
// clients; with 0 they are as fast as before. Answers of one connection that come
// together are late together.
func (l *Link) Slow(by time.Duration) { l.slow.Store(int64(by)) }

// BreakAfter lets n more messages of clients pass, and then resets the connection of
// the one that sends another. What the client has sent since is lost.
func (l *Link) BreakAfter(n int) { l.arm(n, nil) }

// DelayAfter is BreakAfter, but what the client has sent since is under way: it reaches
// the server when the function returned is called.
func (l *Link) DelayAfter(n int) (arrive func()) {
	late := make(chan struct{})
	l.arm(n, late)
	return sync.OnceFunc(func() { close(late) })
}

func (l *Link) arm(n int, late chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.armed, l.mu.left, l.mu.late = true, n, late
}

// Disarm reports whether the link has not broken since BreakAfter or DelayAfter, and
// makes it pass messages again.
func (l *Link) Disarm() (whole bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	whole = l.mu.armed
	l.mu.armed = false
	return whole
}

// passes counts a message of a client. If it does not pass, late is closed when it is
// to arrive, or nil.
func (l *Link) passes() (passes bool, late chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.mu.armed {
		return true, nil
	}
	if l.mu.left--; l.mu.left >= 0 {
		return true, nil
	}
	l.mu.armed = false
	return false, l.mu.late
}

// Close resets all connections and ends the link.
func (l *Link) Close() { l.link.Close() }

// requests carries the messages of a client.
func (l *Link) requests(line *tcplink.Line) {
	way := l.newWay(line.Server)
	defer way.end()
	from := bufio.NewReaderSize(line.Client, 64<<10)
	for first := true; ; first = false {
		message, err := read(from, first)
		if err != nil {
			return
		}
		passes, late := l.passes()
		if passes {
			way.send(message, from.Buffered() == 0)
			continue
		}
		rest := append(message, buffered(from)...)
		tcplink.Reset(line.Client)
		if late != nil {
			way.flush()
			<-late
			_, _ = line.Server.Write(rest)
		}
		return
	}
}

// answers carries those of the server.
func (l *Link) answers(line *tcplink.Line) {
	way := l.newWay(line.Client)
	defer way.end()
	from := bufio.NewReaderSize(line.Server, 64<<10)
	const ready = 'Z'
	for connected := false; ; {
		message, err := read(from, false)
		if err != nil {
			return
		}
		if message[0] == ready {
			if connected {
				l.trips.Add(1)
			}
			connected = true
		}
		last := from.Buffered() == 0
		if by := time.Duration(l.slow.Load()); last && by > 0 {
			<-time.After(by)
		}
		way.send(message, last)
	}
}

// read reads a message. The first one of a client has no type.
func read(from *bufio.Reader, first bool) ([]byte, error) {
	head := 5
	if first {
		head = 4
	}
	start, err := from.Peek(head)
	if err != nil {
		return nil, err
	}
	message := make([]byte, head-4+int(binary.BigEndian.Uint32(start[head-4:])))
	_, err = io.ReadFull(from, message)
	return message, err
}

func buffered(from *bufio.Reader) []byte {
	rest := make([]byte, from.Buffered())
	_, _ = io.ReadFull(from, rest)
	return rest
}

// way is one direction of a connection. Messages that come together go on together,
// after the link's delay.
type way struct {
	to      *net.TCPConn
	delay   time.Duration
	pending []byte
	parcels chan parcel // if there is a delay
	done    chan struct{}
}

type parcel struct {
	arrives time.Time
	data    []byte
}

func (l *Link) newWay(to *net.TCPConn) *way {
	w := &way{to: to, delay: l.delay, done: make(chan struct{})}
	if w.delay > 0 {
		w.parcels = make(chan parcel, 4096)
		go w.deliver()
	} else {
		close(w.done)
	}
	return w
}

func (w *way) send(message []byte, last bool) {
	if w.pending = append(w.pending, message...); last {
		w.flush()
	}
}

func (w *way) flush() {
	if len(w.pending) == 0 {
		return
	}
	if w.parcels == nil {
		_, _ = w.to.Write(w.pending) // an error shows when the other side is read
		w.pending = w.pending[:0]
		return
	}
	w.parcels <- parcel{time.Now().Add(w.delay), w.pending}
	w.pending = nil
}

func (w *way) deliver() {
	defer close(w.done)
	for p := range w.parcels {
		sleep(time.Until(p.arrives))
		_, _ = w.to.Write(p.data)
	}
}

// end closes the other side when all has arrived.
func (w *way) end() {
	w.flush()
	if w.parcels != nil {
		close(w.parcels)
	}
	<-w.done
	_ = w.to.CloseWrite()
}
