package intake

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/feed"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
)

// An input whose messages have several lines may have been cut within one, so that
// what was left of it was a message too. When the whole input comes:
//
//   - It is found by the lines of its first message, of which the cut one may have
//     had less. What these lines mean does not matter here, since other lines may say
//     that: whether 1.000 is one or a thousand, in a CSV.
//   - The message that was cut goes on with the rest of its lines, as a message of its
//     own. So nothing is applied twice or left out.

// byLines is what the identities of inputs begin with that are known by the lines of
// their first message. Behind that are the number of the lines, the digest of the
// first one, and that of all.
const byLines = "first lines "

// linesOf digests the first lines of a message, from one line to all.
func linesOf(parts []feed.Part) (digests []string) {
	h := sha256.New()
	for _, p := range parts {
		text := strings.TrimRight(p.Text, "\r\n")
		fmt.Fprintf(h, "%d %s", len(text), text)
		digests = append(digests, hex.EncodeToString(h.Sum(nil)[:size]))
	}
	return digests
}

// identityOf is the identity of an input that begins with the lines.
func identityOf(parts []feed.Part) string {
	lines := linesOf(parts)
	return fmt.Sprint(byLines, len(lines), " ", lines[0], " ", lines[len(lines)-1])
}

// findByLines returns the known input that begins with the same lines: with the most
// of them, or with more than there are now, of which only the first one can be
// compared. i is -1 if there is none.
func findByLines(known []store.Input, parts []feed.Part) (i int) {
	lines := linesOf(parts)
	i, most := -1, -1
	for at, k := range known {
		var n int
		var first, all string
		if _, err := fmt.Sscanf(k.Identity, byLines+"%d %s %s", &n, &first, &all); err != nil || first != lines[0] {
			continue
		}
		same := 0
		switch {
		case n > len(lines):
		case lines[n-1] == all:
			same = n
		default:
			continue
		}
		if same > most {
			i, most = at, same
		}
	}
	return i
}

// split looks whether the message at the present place was cut when it was read
// before. Then it keeps the rest of it, and returns what was read.
func (s *Source) split(it feed.Item) (cut feed.Item, ok bool, err error) {
	n, err := s.splits(it, s.read)
	if n == 0 || err != nil {
		return it, false, err
	}
	head, rest := cutAt(it, n)
	s.rest = &rest
	return head, true, nil
}

// splits returns how many lines of a message are what was read before at a place, if
// the rest of it is what was read after that, or more than ever was.
func (s *Source) splits(it feed.Item, place int64) (n int, err error) {
	known, err := s.digestAt(place)
	if err != nil || known == nil {
		return 0, err
	}
	for n := 1; n < len(it.Parts); n++ {
		head, rest := cutAt(it, n)
		if digest, err := digestOf(head.Message); err != nil || !bytes.Equal(digest, known) {
			if err != nil {
				return 0, err
			}
			continue
		}
		switch fits, err := s.fits(rest, place+1); {
		case err != nil:
			return 0, err
		case fits:
			return n, nil
		}
	}
	return 0, nil
}

// fits reports whether a message is what was read before at a place, or goes on with
// it, or nothing was.
func (s *Source) fits(it feed.Item, place int64) (bool, error) {
	known, err := s.digestAt(place)
	if err != nil || known == nil {
		return err == nil, err
	}
	digest, err := digestOf(it.Message)
	if err != nil || bytes.Equal(digest, known) {
		return err == nil, err
	}
	n, err := s.splits(it, place)
	return n > 0, err
}

// digestAt returns the digest of what was read before at a place, in the block that is
// being read or a later one; nil if nothing was.
func (s *Source) digestAt(place int64) ([]byte, error) {
	block := s.known
	if place/batch != s.read/batch {
		var err error
		if block, err = s.store.Digests(s.ctx, s.input.ID, place/batch); err != nil {
			return nil, err
		}
	}
	at := int(place%batch) * size
	if at >= len(block) {
		return nil, nil
	}
	return block[at : at+size], nil
}

// cutAt cuts a message of several lines behind the first n.
func cutAt(it feed.Item, n int) (head, rest feed.Item) {
	part := func(postings []book.Posting, parts []feed.Part) feed.Item {
		m := *it.Message
		m.Postings = postings
		return feed.Item{Line: parts[0].Line, Message: &m, Parts: parts}
	}
	return part(slices.Clip(it.Message.Postings[:n]), it.Parts[:n]), part(it.Message.Postings[n:], it.Parts[n:])
}
