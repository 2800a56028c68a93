package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/interlock-go/interlock/examples/ledger/internal/audit"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/feed"
	"github.com/interlock-go/interlock/ordering"
)

// rejects keeps what was not applied in a file, one JSON object a line, and
// reports on stderr what should not have happened. Lines that are in the file
// already stay, and are not written again: a run that goes on after another one
// adds what that one could not write.
type rejects struct {
	stderr io.Writer
	input  string // the file that is read, "" if it is none

	mu       sync.Mutex
	path     string   // "" for a temporary file, made when there is something to keep
	file     *os.File // at its end
	kept     map[[sha256.Size]byte]struct{}
	reported int
	lines    int // that are this run's, in the file from before or not
	err      error
}

// reject is a line of the file.
type reject struct {
	Line    int           `json:"line,omitempty"`
	Event   string        `json:"event,omitempty"`
	Verdict string        `json:"verdict"`
	Reason  string        `json:"reason"`
	Message *book.Message `json:"message,omitempty"`
	Raw     string        `json:"raw,omitempty"`   // of what is no message
	Bytes   []byte        `json:"bytes,omitempty"` // the same, in place of Raw, of what is no text
}

// place is where the message stood in an input, or which one it is if it stood nowhere.
func (r reject) place(input string) string {
	switch {
	case r.Line > 0 && input != "":
		return fmt.Sprintf("%s: line %d", input, r.Line)
	case r.Line > 0 || r.Message == nil:
		return fmt.Sprintf("line %d", r.Line)
	}
	return strings.TrimSpace(fmt.Sprintf("%s %.80s", r.Message.Op, ordering.FormatSequenceID(r.Message.Sequence)))
}

// maxReported bounds what is reported on stderr.
const maxReported = 10

// newRejects opens the file, if it has a path. The last line of it is cut off if
// the program was killed while it wrote it.
func newRejects(o *options, stderr io.Writer) (*rejects, error) {
	path := o.rejects
	r := &rejects{path: path, stderr: stderr, kept: map[[sha256.Size]byte]struct{}{}}
	if o.in != "-" {
		r.input = o.in
	}
	if path == "" {
		return r, nil
	}
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() { // a device or a pipe
		r.file, err = os.OpenFile(path, os.O_WRONLY, 0)
		return r, err
	}
	if r.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666); err != nil {
		return nil, err
	}
	if err := r.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("rejects: %w", err), r.file.Close())
	}
	return r, nil
}

// load reads what the file has. One whose last line has no end, and is no reject that was
// cut off, is not touched.
func (r *rejects) load() error {
	text, whole := bufio.NewReader(r.file), int64(0)
	for {
		line, err := text.ReadBytes('\n')
		switch {
		case err == io.EOF && len(line) == 0:
			return nil
		case err == io.EOF && !isCutReject(line):
			return fmt.Errorf("the last line of %s has no end, and is something else than a reject: name another file", r.path)
		case err == io.EOF:
			return r.file.Truncate(whole)
		case err != nil:
			return err
		}
		whole += int64(len(line))
		r.kept[sha256.Sum256(line)] = struct{}{}
	}
}

// isCutReject reports whether a line without an end is the beginning of a reject.
func isCutReject(line []byte) bool {
	var whole struct{ Verdict string }
	if json.Unmarshal(line, &whole) == nil {
		return whole.Verdict != ""
	}
	return slices.ContainsFunc([]string{`{"line":`, `{"event":`, `{"verdict":`}, func(begin string) bool {
		n := min(len(begin), len(line))
		return string(line[:n]) == begin[:n]
	})
}

func (r *rejects) malformed(m *feed.Malformed) {
	what := reject{Line: m.Line, Verdict: "malformed", Reason: m.Err.Error(), Raw: m.Raw}
	if !utf8.ValidString(m.Raw) {
		what.Raw, what.Bytes = "", []byte(m.Raw)
	}
	r.keep(what, true)
}

func (r *rejects) rejected(record audit.Record, verdict audit.Verdict) {
	if verdict.Good() && r.path == "" {
		return
	}
	reason := "applied, though the message says that it must be rejected"
	if record.Err != nil {
		reason = audit.Cause(record.Err).Error()
	}
	r.keep(reject{Line: record.Line, Event: record.Event, Verdict: verdict.String(), Reason: reason, Message: record.Message}, !verdict.Good())
}

// again keeps a message that an earlier run has rejected.
func (r *rejects) again(record audit.Record) {
	r.keep(reject{Line: record.Line, Event: record.Event, Verdict: audit.Judge(record).String(),
		Reason: audit.Cause(record.Err).Error(), Message: record.Message}, false)
}

func (r *rejects) refused(line int, m *book.Message, err error) {
	r.keep(reject{Line: line, Verdict: "contradiction", Reason: err.Error(), Message: m}, true)
}

func (r *rejects) keep(what reject, report bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if report {
		r.report(what)
	}
	if r.err != nil {
		return
	}
	var line strings.Builder
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if r.err = encoder.Encode(what); r.err != nil {
		return
	}
	r.lines++
	sum := sha256.Sum256([]byte(line.String()))
	if _, ok := r.kept[sum]; ok && r.path != "" {
		return
	}
	if r.file == nil {
		if r.file, r.err = os.CreateTemp("", "ledger-rejects-*.ndjson"); r.err != nil {
			return
		}
	}
	_, r.err = io.WriteString(r.file, line.String()) // in one piece, so that several programs can add to a file
}

func (r *rejects) report(what reject) {
	r.reported++
	if r.reported <= maxReported {
		fmt.Fprintf(r.stderr, "%s: %s: %s\n", what.place(r.input), what.Verdict, what.Reason)
	}
}

// finish closes the file and returns its path, or "" if nothing of this run is in
// it.
func (r *rejects) finish() (path string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reported > maxReported {
		fmt.Fprintf(r.stderr, "... and %d more, see the rejects file\n", r.reported-maxReported)
	}
	if r.file == nil {
		return "", r.err
	}
	if r.lines > 0 {
		path = r.file.Name()
	}
	err = errors.Join(r.err, r.file.Close())
	r.file = nil
	if err != nil {
		err = fmt.Errorf("rejects: %w", err)
	}
	return path, err
}

// close closes the file of a run that has not come to its end.
func (r *rejects) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}
