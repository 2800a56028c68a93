package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	terminal "golang.org/x/term"
)

// progress shows how far a run is, on a terminal. The nil progress shows
// nothing.
type progress struct {
	bar *progressbar.ProgressBar
	by  unit
}

// unit is what a progress counts.
type unit uint8

const (
	countMessages unit = iota // that have ended
	countBytes                // that were read
)

// newProgress returns a progress up to total, or nil if output is no terminal.
// A total of -1 is one that is not known.
func newProgress(output io.Writer, total int64, by unit) *progress {
	file, ok := output.(*os.File)
	if !ok || !terminal.IsTerminal(int(file.Fd())) {
		return nil
	}
	options := []progressbar.Option{
		progressbar.OptionSetWriter(output),
		progressbar.OptionSetDescription("running"),
		progressbar.OptionSetWidth(30),
		progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionShowCount(),
		progressbar.OptionClearOnFinish(),
	}
	if by == countBytes {
		options = append(options, progressbar.OptionShowBytes(true))
	} else {
		options = append(options, progressbar.OptionShowIts(), progressbar.OptionSetItsString("messages"))
	}
	return &progress{bar: progressbar.NewOptions64(total, options...), by: by}
}

// ended counts a message. Failing to draw is no reason to fail.
func (p *progress) ended() {
	if p != nil && p.by == countMessages {
		_ = p.bar.Add(1)
	}
}

// reader counts the bytes that are read from r.
func (p *progress) reader(r io.Reader) io.Reader {
	if p == nil || p.by != countBytes {
		return r
	}
	return io.TeeReader(r, p.bar)
}

// read counts bytes that were read.
func (p *progress) read(n int) {
	if p != nil && p.by == countBytes {
		_ = p.bar.Add(n)
	}
}

// begin says how many of a unit were passed over.
func (p *progress) begin(n int64, by unit) {
	if p != nil && p.by == by {
		_ = p.bar.Set64(n)
	}
}

func (p *progress) finish() {
	if p != nil {
		_ = p.bar.Finish()
	}
}
