// Package intake tells inputs apart, message by message, so that one that was
// begun can be gone on with and nothing of it is taken for something new.
package intake

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/feed"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
)

const (
	size  = 16   // bytes of a digest
	batch = 1024 // messages in a block
)

// Source passes on the messages of an input, and notes in the store which they
// are. It is a [feed.Source].
//
// Which input it is, its identity says; if that is not given, its first message
// does, and one that then looks like another one of its name, which was changed at
// its beginning, ends with a [*RewrittenError]. Messages that their senders numbered
// do not count, since where they stand says nothing of them. So what begins like a
// known input is that input: its beginning, the same once more, or one that has
// grown; see also parts.go.
//
// Invariant: a message is passed on after its digest is in the store, at its
// place in the input. So whatever was numbered by its place, the message that
// stands there when the input is read again is compared with it: one that is
// another ends the input with a [*ChangedError], before it is passed on.
type Source struct {
	ctx    context.Context // of the store's calls
	store  store.Inputs
	source feed.Source
	input  store.Input
	name   string
	legacy func(known []store.Input) (id int64, err error)

	checkpoints store.Checkpoints // nil for none
	every       int64             // messages from one place worth keeping to the next
	began       bool              // past the first block, and what was passed over
	passed      *store.Checkpoint // what was passed over; nil for nothing
	odd         bool              // something was read that does not count

	rest    *feed.Item // of a message that was cut when it was read before
	read    int64      // messages that count so far
	known   []byte     // digests of the block that is being read
	fresh   bool       // known has some that the store has not
	byFirst bool       // the first message says which input it is
	unheard bool       // it says that nothing of the input was read before
	ready   []item     // read, and not passed on
	end     error      // what ends the input once ready is empty
	short   bool       // more of it was read before
}

// item is what a source gave.
type item struct {
	feed.Item
	err error // a *feed.Malformed
}

// Config says what to read.
type Config struct {
	Inputs store.Inputs
	Source feed.Source
	Name   string // of the input, for people
	// Identity tells the input from others. Default: its first message.
	Identity string
	// Legacy finds the input among those that older programs knew by something
	// else, 0 if it is none of them. Default: it is none.
	Legacy func(known []store.Input) (id int64, err error)
	// Checkpoints, if set, has the place up to which all messages have ended: they
	// are passed over, if Source is a [feed.Seeker]. Default: all are read.
	Checkpoints store.Checkpoints
	// Every is how many messages it is from one message with a Place to the next; 0
	// for none.
	Every int
}

// New returns the source of an input. ctx is for the calls of the store, to the
// end of the input.
func New(ctx context.Context, c Config) *Source {
	return &Source{ctx: ctx, store: c.Inputs, source: c.Source, name: c.Name, legacy: c.Legacy, input: store.Input{Identity: c.Identity},
		checkpoints: c.Checkpoints, every: int64(c.Every)}
}

// ID is the input's in the store. It is called once a message that counts has
// been passed on.
func (s *Source) ID() int64 { return s.input.ID }

// Short reports whether the input has ended before what was read of it once.
func (s *Source) Short() bool { return s.short }

// Next implements [feed.Source].
func (s *Source) Next() (feed.Item, error) {
	if len(s.ready) == 0 && s.end == nil {
		s.fill()
		if !s.began {
			s.began = true
			s.passOver()
		}
	}
	if len(s.ready) == 0 && s.end == nil { // all that was read is passed over
		s.fill()
	}
	if len(s.ready) == 0 {
		return feed.Item{}, s.end
	}
	next := s.ready[0]
	s.ready = s.ready[1:]
	return next.Item, next.err
}

// fill reads up to the end of a block.
func (s *Source) fill() {
	s.ready = nil
	for s.end == nil {
		it, err := s.take()
		if _, malformed := err.(*feed.Malformed); err != nil && !malformed {
			s.end = err
			break
		}
		if err == nil && len(it.Message.Sequence) == 0 {
			if it, err = s.count(it); err != nil {
				s.end = err
				break
			}
		}
		s.odd = s.odd || err != nil || len(it.Message.Sequence) > 0
		s.ready = append(s.ready, item{it, err})
		if s.every > 0 && s.read%s.every == 0 {
			s.mark()
		}
		if s.read%batch == 0 && s.read > 0 || len(s.ready) == 2*batch {
			break
		}
	}
	if s.end == io.EOF && s.every > 0 && len(s.ready) > 0 {
		s.mark()
	}
	if s.end == io.EOF && s.input.ID != 0 {
		s.end = s.finish()
	}
	if !s.fresh {
		return
	}
	s.fresh = false
	if s.unheard {
		s.unheard = false
		if err := s.compare(); err != nil {
			s.ready, s.end = nil, err
			return
		}
	}
	if err := s.store.SaveDigests(s.ctx, s.input.ID, (s.read-1)/batch, s.known); err != nil {
		s.ready, s.end = nil, err
	}
}

// take takes the next message of the source.
func (s *Source) take() (feed.Item, error) {
	if s.rest == nil {
		return s.source.Next()
	}
	it := *s.rest
	s.rest = nil
	return it, nil
}

// finish looks whether more was read before than there is now.
func (s *Source) finish() error {
	if int(s.read%batch)*size < len(s.known) && s.read%batch != 0 {
		s.short = true
		return io.EOF
	}
	next, err := s.store.Digests(s.ctx, s.input.ID, (s.read+batch-1)/batch)
	s.short = len(next) > 0
	return cmp.Or(err, io.EOF)
}

// count compares a message with what is known of its place, and returns it, or the
// beginning of it that was read before.
func (s *Source) count(it feed.Item) (feed.Item, error) {
	digest, err := digestOf(it.Message)
	if err != nil {
		return it, err
	}
	if s.input.ID == 0 {
		if err := s.find(it, digest); err != nil {
			return it, err
		}
	}
	place := int(s.read % batch)
	if place == 0 {
		if s.known, err = s.store.Digests(s.ctx, s.input.ID, s.read/batch); err != nil {
			return it, err
		}
		s.known = slices.Clone(s.known)
		s.unheard = s.read == 0 && len(s.known) == 0 && s.byFirst
	}
	switch at := place * size; {
	case at == len(s.known):
		s.known = append(s.known, digest...)
		s.fresh = true
	case !bytes.Equal(s.known[at:at+size], digest):
		line, cut := it.Line, false
		if it, cut, err = s.split(it); err != nil {
			return it, err
		}
		if !cut {
			return it, &ChangedError{Line: line, Lines: it.Parts != nil, Same: s.read, Name: s.input.Name}
		}
	}
	s.read++
	return it, nil
}

// find returns the store's entry of the input, which begins with a message of
// the given digest, and makes one if there is none.
func (s *Source) find(it feed.Item, digest []byte) error {
	s.byFirst = s.input.Identity == ""
	if s.byFirst {
		s.input.Identity = byMessage + hex.EncodeToString(digest)
	}
	known, err := s.store.Inputs(s.ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(known, func(k store.Input) bool { return k.Identity == s.input.Identity })
	if i < 0 && s.byFirst && it.Parts != nil {
		s.input.Identity = identityOf(it.Parts)
		i = findByLines(known, it.Parts)
	}
	if i >= 0 {
		s.input = known[i]
		return nil
	}
	s.input.Name = s.name
	if s.legacy != nil {
		if s.input.ID, err = s.legacy(known); err != nil {
			return err
		}
	}
	s.input, err = s.store.SaveInput(s.ctx, s.input)
	return err
}

// byMessage is what the identities of inputs begin with that are known by their
// first message.
const byMessage = "first message "

// compare reports whether the beginning of an input that was not heard of looks like
// another one of its name, of which the first message was changed.
func (s *Source) compare() error {
	inputs, err := s.store.Inputs(s.ctx)
	if err != nil {
		return err
	}
	before := map[[size]byte]bool{}
	for _, in := range inputs {
		for block := int64(0); in.Name == s.name && in.ID != s.input.ID; block++ {
			digests, err := s.store.Digests(s.ctx, in.ID, block)
			if err != nil {
				return err
			}
			if len(digests) == 0 {
				break
			}
			for digest := range slices.Chunk(digests, size) {
				before[[size]byte(digest)] = true
			}
		}
	}
	same := 0
	for digest := range slices.Chunk(s.known, size) {
		if before[[size]byte(digest)] {
			same++
		}
	}
	if n := len(s.known) / size; same*2 >= n {
		return &RewrittenError{Same: same, Of: n}
	}
	return nil
}

func digestOf(m *book.Message) ([]byte, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	return sum[:size], nil
}

// ChangedError says that an input begins like one that was read before, and then
// goes on otherwise.
type ChangedError struct {
	Line  int
	Lines bool   // the message has several lines, as in a CSV
	Same  int64  // messages before it that are the same
	Name  string // of the input that was read before
}

func (e *ChangedError) Error() string {
	text := fmt.Sprintf("line %d: the input begins like %s, which was read before, with the same %d messages, and goes on otherwise: "+
		"nothing is applied from there on. If it was changed, restore it, and put what is new behind its end or into another file; "+
		"if it is another input, name it with -as", e.Line, e.Name, e.Same)
	if e.Lines {
		text += ". If the line is the same as it was, its amount means something else: with another -decimal-mark, or for what other numbers there are by now"
	}
	return text
}

// RewrittenError says that an input begins with another message than the one of
// its name that was read before, but has at least half of its first messages in
// common with it.
type RewrittenError struct{ Same, Of int }

func (e *RewrittenError) Error() string {
	return fmt.Sprintf("the input was read before, began otherwise, and had %d of the first %d messages: nothing is applied. "+
		"If it was changed, restore it, and put what is new behind its end or into another file; if it is another input, name it with -as",
		e.Same, e.Of)
}
