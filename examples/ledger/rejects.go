package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/interlock-go/interlock/examples/ledger/internal/audit"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/feed"
	"github.com/interlock-go/interlock/ordering"
)

// rejects keeps what was not applied in a file, one JSON object a line, and
// reports on stderr what should not have happened. The file is made when there
// is something to keep.
type rejects struct {
	stderr io.Writer
	add    bool // to the file, if it is there

	mu       sync.Mutex
	path     string // "" for a temporary file
	file     *os.File
	reported int
	err      error
}

// reject is a line of the file.
type reject struct {
	Line    int           `json:"line,omitempty"`
	Verdict string        `json:"verdict"`
	Reason  string        `json:"reason"`
	Message *book.Message `json:"message,omitempty"`
	Raw     string        `json:"raw,omitempty"` // of what is no message
}

// place is where the message stood, or which one it is if it stood nowhere.
func (r reject) place() string {
	if r.Line > 0 || r.Message == nil {
		return fmt.Sprintf("line %d", r.Line)
	}
	return strings.TrimSpace(fmt.Sprintf("%s %.80s", r.Message.Op, ordering.FormatSequenceID(r.Message.Sequence)))
}

// maxReported bounds what is reported on stderr.
const maxReported = 10

func newRejects(path string, add bool, stderr io.Writer) *rejects {
	return &rejects{path: path, add: add, stderr: stderr}
}

func (r *rejects) malformed(m *feed.Malformed) {
	r.keep(reject{Line: m.Line, Verdict: "malformed", Reason: m.Err.Error(), Raw: m.Raw}, true)
}

func (r *rejects) rejected(record audit.Record, verdict audit.Verdict) {
	if verdict.Good() && r.path == "" {
		return
	}
	reason := "applied, though the message says that it must be rejected"
	if record.Err != nil {
		reason = audit.Cause(record.Err).Error()
	}
	r.keep(reject{Line: record.Line, Verdict: verdict.String(), Reason: reason, Message: record.Message}, !verdict.Good())
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
	if r.file == nil {
		if r.file, r.err = r.create(); r.err != nil {
			return
		}
	}
	encoder := json.NewEncoder(r.file)
	encoder.SetEscapeHTML(false)
	r.err = encoder.Encode(what)
}

func (r *rejects) create() (*os.File, error) {
	switch {
	case r.path == "":
		return os.CreateTemp("", "ledger-rejects-*.ndjson")
	case r.add:
		return os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	}
	return os.Create(r.path)
}

func (r *rejects) report(what reject) {
	r.reported++
	if r.reported <= maxReported {
		fmt.Fprintf(r.stderr, "%s: %s: %s\n", what.place(), what.Verdict, what.Reason)
	}
}

// finish closes the file and returns its path, or "" if there is none.
func (r *rejects) finish() (path string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reported > maxReported {
		fmt.Fprintf(r.stderr, "... and %d more, see the rejects file\n", r.reported-maxReported)
	}
	if r.file == nil {
		return "", r.err
	}
	path = r.file.Name()
	return path, errors.Join(r.err, r.file.Close())
}
