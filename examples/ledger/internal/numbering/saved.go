package numbering

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/lockkeys"
)

// saved is a numbering as [Numbering.Save] writes it, behind a byte for the version.
type saved struct {
	Limit    int
	Messages uint64
	Streams  []savedStream // each behind the one above it
}

// savedStream is a stream. Other streams are named by their indexes.
type savedStream struct {
	Above               int
	Segment             string // of the key
	Last, Touched, Wide uint64
	Since               []int
}

const savedVersion = 1

// Save returns all that [Load] needs to go on with the next message.
func (n *Numbering) Save() ([]byte, error) {
	s := saved{Limit: n.limit, Messages: n.messages, Streams: make([]savedStream, 0, n.streams)}
	all := make([]*stream, 0, n.streams)
	add := func(above int, segment string, t *stream) {
		t.index = len(all)
		all = append(all, t)
		s.Streams = append(s.Streams, savedStream{Above: above, Segment: segment, Last: t.last, Touched: t.touched, Wide: t.wide})
	}
	add(0, "", n.root)
	for i := 0; i < len(all); i++ {
		for segment, below := range all[i].below {
			add(i, segment, below)
		}
	}
	for i, t := range all {
		for _, below := range t.since {
			s.Streams[i].Since = append(s.Streams[i].Since, below.index)
		}
	}
	text := bytes.NewBuffer([]byte{savedVersion})
	err := gob.NewEncoder(text).Encode(&s)
	return text.Bytes(), err
}

// ErrSaved is wrapped by the error of [Load] for a text that is not by this version
// of the program.
var ErrSaved = errors.New("the numbering was saved by another version of the program")

// CanLoad reports whether a numbering was saved by this version of the program.
func CanLoad(text []byte) bool { return len(text) > 0 && text[0] == savedVersion }

// Load returns the numbering that was saved, with its streams below a key.
func Load(below lockkeys.Key, text []byte) (n *Numbering, err error) {
	if !CanLoad(text) {
		return nil, ErrSaved
	}
	var s saved
	if err := gob.NewDecoder(bytes.NewReader(text[1:])).Decode(&s); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSaved, err)
	}
	if len(s.Streams) == 0 {
		return nil, fmt.Errorf("%w: it has no streams", ErrSaved)
	}
	n = NewBounded(below, s.Limit)
	n.messages = s.Messages
	all := []*stream{n.root}
	for i, t := range s.Streams {
		if i > 0 {
			if t.Above < 0 || t.Above >= i {
				return nil, fmt.Errorf("%w: stream %d is above stream %d", ErrSaved, t.Above, i)
			}
			all = append(all, n.begin(all[t.Above], t.Segment))
		}
		all[i].last, all[i].touched, all[i].wide = t.Last, t.Touched, t.Wide
	}
	for i, t := range s.Streams {
		for _, below := range t.Since {
			if below < 0 || below >= len(all) {
				return nil, fmt.Errorf("%w: there is no stream %d", ErrSaved, below)
			}
			all[i].since = append(all[i].since, all[below])
		}
	}
	return n, nil
}
