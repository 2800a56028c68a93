// Package numbering gives messages their numbers, as a producer does that
// sends them: each message one on every stream that it is part of, so that
// whoever gets them late, twice or out of order can tell how they belong.
package numbering

import (
	"crypto/sha256"
	"fmt"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

const (
	// depth is how many levels of a key make a stream: "client/42" is the
	// stream of all that concerns client 42 and nobody else.
	depth = 2
	// maxStreams keeps a message for everything within what an event can
	// carry. Once there are so many streams, what would begin a new one goes
	// to the one above it.
	maxStreams = ordering.MaxPositions
	// maxName keeps a stream within what an event can carry, in bytes for each
	// of its levels: a longer name is cut short, see nameOf.
	maxName = 48
)

// Numbering numbers messages in the order of the calls of [Numbering.Next].
// Of any two that conflict, the earlier one comes before the later one by
// their numbers: on a stream that both are part of, or by way of messages in
// between. The same messages get the same numbers again.
//
// A stream is a key cut to two levels, and a message is part of the streams
// of its keys. A key of fewer levels is wide: it conflicts with all that is
// below it, which has streams of its own. There the rule is, with touched and
// wide as in stream:
//
//   - a message that asks for a wide key also takes a number on each stream
//     below it that was touched since that key was last asked for;
//   - a message on a stream also takes a number on each stream above it whose
//     key was asked for since the stream was last touched. So one that is new
//     or was not touched by an end of day cannot overtake it.
//
// What neither of the two takes is ordered already, by induction. A number on a
// stream leads to two more at most for each level above it, one by each part
// of the rule, however many streams there are.
type Numbering struct {
	root     *stream
	streams  int
	limit    int // of streams
	messages uint64
}

// stream is a key that messages are numbered on. What is above a stream is a
// stream too.
type stream struct {
	key     lockkeys.Key // as it stands in positions
	above   *stream      // nil for the root
	below   map[string]*stream
	last    uint64 // number
	touched uint64 // the last message that has a number here
	wide    uint64 // the last message that asked for the key itself, if it is wide
	// since are the streams below with touched > wide.
	since []*stream
	index int // while the numbering is saved
}

// New returns a numbering whose streams lie below a key.
func New(below lockkeys.Key) *Numbering { return NewBounded(below, maxStreams) }

// NewBounded returns one that has so many streams at most, so that no message
// has more numbers than that.
func NewBounded(below lockkeys.Key, streams int) *Numbering {
	return &Numbering{root: &stream{key: below}, streams: 1, limit: min(streams, maxStreams)}
}

// Next returns the numbers of the next message, which asks for the given
// keys.
func (n *Numbering) Next(requests []lockkeys.Request) []ordering.Position {
	n.messages++
	m := message{id: n.messages, positions: make([]ordering.Position, 0, len(requests))}
	for _, r := range requests {
		s, wide := n.find(r.Key)
		for a := s.above; a != nil; a = a.above {
			if a.wide > s.touched && s.touched != m.id {
				m.take(a)
			}
		}
		if wide && s.wide != m.id {
			s.wide = m.id
			for _, below := range s.since {
				m.take(below)
			}
			s.since = s.since[:0]
		}
		m.take(s)
	}
	if len(requests) == 0 {
		m.take(n.root) // an event has at least one number
	}
	return m.positions
}

// Messages is the number of messages that were numbered.
func (n *Numbering) Messages() uint64 { return n.messages }

// find returns the stream of a key, and whether the key is wide.
func (n *Numbering) find(key lockkeys.Key) (s *stream, wide bool) {
	s = n.root
	level := 0
	for segment := range key.Segments() {
		if level == depth {
			return s, false
		}
		next := s.below[segment]
		if next == nil {
			if n.streams == n.limit {
				return s, false
			}
			next = n.begin(s, segment)
		}
		s = next
		level++
	}
	return s, level < depth
}

func (n *Numbering) begin(above *stream, segment string) *stream {
	key, err := above.key.Child(nameOf(segment))
	if err != nil {
		panic(err) // a segment of a key, three or four levels down
	}
	s := &stream{key: key, above: above}
	if above.below == nil {
		above.below = map[string]*stream{}
	}
	above.below[segment] = s
	n.streams++
	return s
}

// nameOf returns what stands in a stream for a segment of a key: the segment, or
// if that is long the begin of its hash, which no account's level looks like.
func nameOf(segment string) string {
	if len(segment) <= maxName {
		return segment
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(segment)))[:maxName]
}

// message is one that is being numbered.
type message struct {
	id        uint64
	positions []ordering.Position
}

// take gives the message a number on a stream, once.
func (m *message) take(s *stream) {
	if s.touched == m.id {
		return
	}
	for a := s.above; a != nil; a = a.above {
		if s.touched <= a.wide && a.wide != m.id {
			a.since = append(a.since, s)
		}
	}
	s.last++
	s.touched = m.id
	m.positions = append(m.positions, ordering.Position{Stream: s.key, Number: s.last})
}
