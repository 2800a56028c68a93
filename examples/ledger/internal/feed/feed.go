// Package feed reads messages: one JSON object a line, or the CSV that
// "hledger print -O csv" writes.
package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
)

// Item is one message of an input and the line that it begins on.
type Item struct {
	Line    int
	Message *book.Message
	// Place is where a [Seeker] goes on behind the message, if that is worth
	// keeping; nil for most.
	Place []byte
	// Parts are the lines of a message that has several, one for each of its
	// postings. Of an input that was cut it may have only the first ones. nil for a
	// message of one line.
	Parts []Part
}

// Part is a line of a message.
type Part struct {
	Line int
	Text string // as it stands in the input, with its end
}

// Source gives the messages of an input in order. Next returns io.EOF after
// the last one. After a [*Malformed] error it can be called for the next
// message; after any other error the input has ended.
type Source interface {
	Next() (Item, error)
}

// Seeker is a source that can go on from a place, in another program too.
type Seeker interface {
	Source
	// Place returns where the next message begins, with what is needed to tell
	// whether all before it is still the same; nil if the source cannot go on
	// from there.
	Place() ([]byte, error)
	// Seek goes on at a place, if the end of what is before that is the same as it
	// was, as far as a short look tells. Otherwise it returns an error that wraps
	// [ErrOtherPlace], and the source is where it was.
	Seek(place []byte) error
	// Check reads all before a place, and returns an error that wraps
	// [ErrOtherPlace] if it is not the same as it was. It may be called beside
	// Next.
	Check(ctx context.Context, place []byte) error
}

// ErrOtherPlace is wrapped by the error for a place that is none of the input as
// it is now, or was written by another version of the program.
var ErrOtherPlace = errors.New("the input is not the one that was read before")

// Malformed says that a part of the input is no message. The rest of the input
// can still be read.
type Malformed struct {
	Line int
	Raw  string // the text as it stands in the input, possibly cut
	Err  error
}

func (m *Malformed) Error() string { return fmt.Sprintf("line %d: %v", m.Line, m.Err) }

// Unwrap gives the reason.
func (m *Malformed) Unwrap() error { return m.Err }

// Format names a form of input.
type Format string

// The formats.
const (
	NDJSON     Format = "ndjson"
	HledgerCSV Format = "hledger-csv"
)

// FormatOf tells the format of a file by the ending of its name. Standard
// input, "-", counts as NDJSON.
func FormatOf(name string) (Format, error) {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".csv":
		return HledgerCSV, nil
	case ".ndjson", ".jsonl", ".json":
		return NDJSON, nil
	}
	if name == "-" {
		return NDJSON, nil
	}
	return "", fmt.Errorf("cannot tell the format of %q by its name: say -format %s or -format %s", name, NDJSON, HledgerCSV)
}

// Open returns the source that reads r. What is said of [NewHledger] holds for r
// and mark, which NDJSON does not need.
func Open(r io.Reader, format Format, mark string) (Source, error) {
	switch format {
	case NDJSON:
		return NewNDJSON(r), nil
	case HledgerCSV:
		return NewHledger(r, mark), nil
	}
	return nil, fmt.Errorf("format %q is not known: use %s or %s", string(format), NDJSON, HledgerCSV)
}

// errCut is the error of the last line of an input that ends within it.
var errCut = errors.New("the line has no end: the input was cut: run it again once it is complete, and it continues from here")

// byteOrderMark stands at the beginning of files that some editors write.
const byteOrderMark = "\uFEFF"
