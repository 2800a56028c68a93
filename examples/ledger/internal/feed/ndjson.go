package feed

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
)

// maxLine bounds the bytes of one message.
const maxLine = 1 << 20

// ndjson reads one JSON object a line. Empty lines are passed over. A line that
// has several objects is read as if they stood on lines of their own: something
// was added to an input whose last line had no end.
type ndjson struct {
	r    *bufio.Reader
	line int
	open bool   // the line has no end, since the input has ended
	rest []byte // of the line, behind its first objects
	seen *seen  // nil if nobody goes on from a place
}

// NewNDJSON returns the source that reads messages in their JSON form, one a
// line. It is a [Seeker] if r is a [File].
func NewNDJSON(r io.Reader) Source {
	n := &ndjson{r: bufio.NewReaderSize(r, 1<<16)}
	file, ok := r.(File)
	if !ok {
		return n
	}
	n.seen = &seen{file: file, hash: sha256.New()}
	return &ndjsonFile{n}
}

// Next implements [Source].
func (n *ndjson) Next() (Item, error) {
	if len(n.rest) > 0 {
		return n.decode(n.rest)
	}
	for {
		text, tooLong, err := n.readLine()
		if err != nil {
			return Item{}, err
		}
		if tooLong {
			return Item{}, &Malformed{n.line, string(text), fmt.Errorf("longer than %d bytes: split the message", maxLine)}
		}
		text = bytes.TrimSpace(text)
		if n.line == 1 {
			text = bytes.TrimPrefix(text, []byte(byteOrderMark))
		}
		if len(text) == 0 {
			continue
		}
		return n.decode(text)
	}
}

// decode decodes the first object of a line, and keeps the others.
func (n *ndjson) decode(text []byte) (Item, error) {
	n.rest = nil
	m, err := book.Decode(text)
	if errors.Is(err, book.ErrMore) {
		objects := json.NewDecoder(bytes.NewReader(text))
		var first json.RawMessage
		if objects.Decode(&first) == nil {
			if rest := bytes.TrimSpace(text[objects.InputOffset():]); rest[0] == '{' {
				n.rest, text = rest, first
				m, err = book.Decode(text)
			}
		}
	}
	if err != nil {
		if n.open && endsWithin(text) {
			err = fmt.Errorf("%w (%w)", errCut, err)
		}
		return Item{}, &Malformed{n.line, string(text), err}
	}
	return Item{Line: n.line, Message: m}, nil
}

// endsWithin reports whether a text is the beginning of a JSON value.
func endsWithin(text []byte) bool {
	var value json.RawMessage
	return errors.Is(json.NewDecoder(bytes.NewReader(text)).Decode(&value), io.ErrUnexpectedEOF)
}

// readLine reads up to and without the next line end. Of a line that is too
// long it returns the beginning.
func (n *ndjson) readLine() (text []byte, tooLong bool, err error) {
	n.line++
	for {
		part, err := n.r.ReadSlice('\n')
		n.seen.add(part)
		if room := maxLine - len(text); len(part) > room {
			part, tooLong = part[:room], true
		}
		text = append(text, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == io.EOF && len(text) > 0:
			n.open = true
			return text, tooLong, nil
		case err != nil && err != io.EOF:
			return nil, false, fmt.Errorf("read line %d: %w", n.line, err)
		case err == io.EOF:
			n.line-- // it is none
		}
		return text, tooLong, err
	}
}

// WriteNDJSON writes the messages of a source in their JSON form.
func WriteNDJSON(w io.Writer, source Source) error {
	buffered := bufio.NewWriter(w)
	encoder := json.NewEncoder(buffered)
	encoder.SetEscapeHTML(false)
	for {
		item, err := source.Next()
		if err == io.EOF {
			return buffered.Flush()
		}
		if err == nil {
			err = encoder.Encode(item.Message)
		}
		if err != nil {
			return err
		}
	}
}
