package rabbitmq

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"math"
	"net"
	"slices"
	"strconv"
)

// DroppedHeader is set on a message whose headers the client library cannot all
// read, and has the names of those dropped: tables and lists that are nested more
// than 32 deep or have more than 8192 entries, or values of types that it does not
// know. Otherwise the client would close the connection each time the message
// comes, without saying anything about it.
const DroppedHeader = "x-interlock-dropped"

// Limits of the client for headers: beyond them it closes the connection.
const (
	deepest     = 32
	mostEntries = 8192
)

// sieve is the socket of a connection. It passes on the broker's bytes unchanged,
// except for messages' headers that the client cannot read; see [DroppedHeader].
// It costs a look at the first bytes of each frame and a walk over the headers of
// each message.
type sieve struct {
	net.Conn
	in    *bufio.Reader
	pass  int    // bytes of the current frame still to be passed on from in
	ready []byte // bytes to be passed on before them
	frame []byte // buffer for frames with properties
}

func newSieve(socket net.Conn) *sieve {
	return &sieve{Conn: socket, in: bufio.NewReaderSize(socket, 16<<10)}
}

// Frames: type, channel, size, payload, end.
const (
	frameHead    = 7
	frameEnds    = frameHead + 1
	frameContent = 2 // the type of frames with the properties of a message
	frameTypes   = 8 // the largest type, that of heartbeats
	sievedFrame  = 16 << 20
)

// Read implements [net.Conn].
func (s *sieve) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if s.pass == 0 && len(s.ready) == 0 {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	if len(s.ready) > 0 {
		n := copy(p, s.ready)
		s.ready = s.ready[n:]
		return n, nil
	}
	n, err := s.in.Read(p[:min(len(p), s.pass)])
	s.pass -= n
	return n, err
}

// next examines the next frame.
func (s *sieve) next() error {
	head, err := s.in.Peek(frameHead)
	if err != nil {
		return err
	}
	size := int(binary.BigEndian.Uint32(head[3:]))
	switch {
	case head[0] > frameTypes: // not a frame: another protocol
		s.pass = math.MaxInt
	case head[0] != frameContent || size > sievedFrame:
		s.pass = size + frameEnds
	default:
		s.frame = slices.Grow(s.frame[:0], size+frameEnds)
		frame := s.frame[:size+frameEnds]
		for n := 0; n < len(frame); { // not io.ReadFull: nothing is lost at a deadline
			read, err := s.in.Read(frame[n:])
			if n += read; err != nil {
				s.ready = frame[:n]
				s.pass = len(frame) - n
				return err
			}
		}
		s.ready = sift(frame)
	}
	return nil
}

// ConnectionState returns the state of TLS, if used; the client asks for it.
func (s *sieve) ConnectionState() (state tls.ConnectionState) {
	if secure, ok := s.Conn.(*tls.Conn); ok {
		state = secure.ConnectionState()
	}
	return state
}

// sift returns a frame with a message's properties in a form that the client can
// read: the frame itself, or another one that is not longer.
func sift(frame []byte) []byte {
	start, end, ok := headersOf(frame)
	if !ok {
		return frame
	}
	table := frame[start:end]
	if isReadable(table, 0) {
		return frame
	}
	kept, dropped := readable(table)
	room := len(table) - len(kept)
	kept = append(kept, droppedEntry(dropped, room)...)
	sifted := make([]byte, 0, len(frame))
	sifted = append(sifted, frame[:start]...)
	binary.BigEndian.PutUint32(sifted[start-4:], uint32(len(kept)))
	sifted = append(sifted, kept...)
	sifted = append(sifted, frame[end:]...)
	binary.BigEndian.PutUint32(sifted[3:], uint32(len(sifted)-frameEnds))
	return sifted
}

// headersOf returns the range of the entries of a message's headers. It is not ok
// if there are none, or the frame is malformed.
func headersOf(frame []byte) (start, end int, ok bool) {
	const (
		fixed           = frameHead + 2 + 2 + 8 // class, weight, size of the body
		contentType     = 1 << 15
		contentEncoding = 1 << 14
		headers         = 1 << 13
	)
	end = len(frame) - 1
	if end < fixed+2 {
		return 0, 0, false
	}
	flags := binary.BigEndian.Uint16(frame[fixed:])
	start = fixed + 2
	for _, property := range []uint16{contentType, contentEncoding} {
		if flags&property != 0 && start < end {
			start += 1 + int(frame[start])
		}
	}
	if flags&headers == 0 || start+4 > end {
		return 0, 0, false
	}
	size := int(binary.BigEndian.Uint32(frame[start:]))
	start += 4
	return start, start + size, start+size <= end
}

// readable returns the entries of a table that the client can read, and the
// names of the others.
func readable(table []byte) (kept []byte, dropped []string) {
	const others = mostEntries - 16 // leaves room for the headers of events, and DroppedHeader
	for entries := 0; len(table) > 0; {
		name, size, good := field(table, 0)
		if size == 0 { // it is unknown where the next one begins
			return kept, append(dropped, name)
		}
		if good && (entries < others || entries < mostEntries-1 && isReserved(name)) {
			entries++
			kept = append(kept, table[:size]...)
		} else {
			dropped = append(dropped, name)
		}
		table = table[size:]
	}
	return kept, dropped
}

// droppedEntry returns the entry of DroppedHeader, with the names cut to the room,
// or nil if there is none.
func droppedEntry(names []string, room int) []byte {
	const most = 1 << 10
	room = min(room-(1+len(DroppedHeader)+1+4), most)
	if room < 0 {
		return nil
	}
	var text []byte
	for i, name := range names {
		if i > 0 {
			text = append(text, ", "...)
		}
		if text = strconv.AppendQuoteToASCII(text, name); len(text) > room {
			text = text[:room]
			break
		}
	}
	entry := append([]byte{byte(len(DroppedHeader))}, DroppedHeader...)
	entry = binary.BigEndian.AppendUint32(append(entry, 'S'), uint32(len(text)))
	return append(entry, text...)
}

// isReadable reports whether the client can read all entries of a table at a
// depth; that of the headers themselves is 0.
func isReadable(table []byte, depth int) bool {
	for entries := 0; len(table) > 0; entries++ {
		_, size, good := field(table, depth)
		if !good || entries == mostEntries {
			return false
		}
		table = table[size:]
	}
	return true
}

// field returns the name of the first entry of a table, its size in bytes, 0 if
// unknown, and whether the client can read it.
func field(table []byte, depth int) (name string, size int, good bool) {
	length := 1 + int(table[0])
	if length > len(table) {
		return string(table[1:]), 0, false
	}
	size, good = value(table[length:], depth)
	if size > 0 {
		size += length
	}
	return string(table[1:length]), size, good
}

// value returns the size of a value in bytes, 0 if unknown, and whether the client
// can read it, in a table or list at a depth.
func value(b []byte, depth int) (size int, good bool) {
	if len(b) == 0 {
		return 0, false
	}
	good = true
	switch b[0] {
	case 't', 'b', 'B':
		size = 2
	case 's', 'u':
		size = 3
	case 'I', 'i', 'f':
		size = 5
	case 'l', 'd', 'T':
		size = 9
	case 'D':
		size = 6
	case 'V':
		size = 1
	case 'U': // this and the next are in the protocol's specification; the client does not know them
		size, good = 3, false
	case 'L':
		size, good = 9, false
	case 'S', 'x', 'A', 'F':
		if len(b) < 5 {
			return 0, false
		}
		size = 5 + int(binary.BigEndian.Uint32(b[1:]))
	default:
		return 0, false
	}
	if size <= 0 || size > len(b) {
		return 0, false
	}
	switch b[0] {
	case 'A':
		good = depth < deepest && isReadableList(b[5:size], depth+1)
	case 'F':
		good = depth < deepest && isReadable(b[5:size], depth+1)
	}
	return size, good
}

func isReadableList(list []byte, depth int) bool {
	for entries := 0; len(list) > 0; entries++ {
		size, good := value(list, depth)
		if !good || entries == mostEntries {
			return false
		}
		list = list[size:]
	}
	return true
}
