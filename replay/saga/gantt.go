package saga

import (
	"fmt"
	"io"
	"time"
)

// bar is a part of the time of a step in a chart.
type bar struct {
	step     string
	from, to time.Time
	color    string
	title    string
}

// The colors of bars.
const (
	attemptColor = "#4a86c8"
	failedColor  = "#c84a4a"
	replyColor   = "#d9d9d9"
	undoColor    = "#e0a030"
	parkedColor  = "#8a5aa8"
)

// bars makes bars of a history. What has not ended does at until.
func bars(history []Entry, until time.Time) (list []bar) {
	open := map[string]*bar{}
	end := func(step string, at time.Time) {
		if b := open[step]; b != nil {
			b.to = at
			list = append(list, *b)
			delete(open, step)
		}
	}
	begin := func(step string, at time.Time, color, title string) {
		end(step, at)
		open[step] = &bar{step: step, from: at, color: color, title: title}
	}
	for _, e := range history {
		switch e.Type {
		case StepStarted:
			begin(e.Step, e.Time, attemptColor, "attempt 1")
		case StepWaits:
			begin(e.Step, e.Time, replyColor, "waits for a reply")
		case UndoStarted:
			begin(e.Step, e.Time, undoColor, "undo, attempt 1")
		case StepFailed, CompensationFailed:
			color, undo := attemptColor, ""
			if e.Type == CompensationFailed {
				color, undo = undoColor, "undo, "
			}
			b := open[e.Step]
			if b == nil { // the run has turned back: there is no further attempt
				break
			}
			b.color, b.title = failedColor, fmt.Sprintf("%sattempt %d has failed: %s", undo, e.Attempt, e.Error)
			begin(e.Step, e.Time, color, fmt.Sprintf("%spause, and attempt %d", undo, e.Attempt+1))
		case SagaParked:
			begin(e.Step, e.Time, parkedColor, "parked: "+e.Error)
		case SagaResumed, SagaSkipped:
			for step, b := range open {
				if b.color == parkedColor {
					begin(step, e.Time, attemptColor, "resumed by "+e.Operator)
				}
			}
		case StepCompleted, StepCompensated:
			end(e.Step, e.Time)
		case CompensationStarted, SagaCompleted, SagaCompensated, SagaDropped: // nothing more is done, or at all
			for step := range open {
				end(step, e.Time)
			}
		}
	}
	for step := range open {
		end(step, until)
	}
	return list
}

// Gantt writes what has happened in the run as a chart: a row for each step, with its
// attempts in blue, failed ones in red, waits for replies in grey, undoing in orange, and
// parked times in purple; each bar has its text as a title. The first row is the run,
// with the wait for its keys in grey. The run must have its history.
func (r Run) Gantt(w io.Writer) error {
	const rowHeight, nameWidth, width, margin = 26, 150, 640, 16
	until := r.Ended
	if until.IsZero() {
		until = r.Changed
	}
	total := max(until.Sub(r.Started), time.Microsecond)
	x := func(at time.Time) int {
		return margin + nameWidth + int(width*at.Sub(r.Started).Seconds()/total.Seconds())
	}
	p := &picture{to: w}
	p.begin(2*margin+nameWidth+width, 2*margin+rowHeight*(len(r.Steps)+2))
	draw := func(row int, b bar) {
		p.add(`<rect x="%d" y="%d" width="%d" height="%d" fill="%s" stroke="#ffffff"><title>%s</title></rect>`,
			x(b.from), margin+row*rowHeight, max(x(b.to)-x(b.from), 2), rowHeight-8, b.color, xml(b.title))
	}
	p.text(margin, margin+13, "start", r.ID+": "+r.Status.String())
	keys := until // when the run had its keys
	for _, e := range r.History {
		if e.Type == StepStarted {
			keys = e.Time
			break
		}
	}
	draw(0, bar{from: r.Started, to: keys, color: replyColor, title: "waits for its keys"})
	if keys.Before(until) {
		draw(0, bar{from: keys, to: until, color: "#6aa86a", title: "has its keys"})
	}
	list := bars(r.History, until)
	for i, s := range r.Steps {
		p.text(margin, margin+(i+1)*rowHeight+13, "start", s.Name+": "+s.Status.String())
		for _, b := range list {
			if b.step == s.Name {
				draw(i+1, b)
			}
		}
	}
	bottom := margin + (len(r.Steps)+1)*rowHeight + 13
	p.text(margin+nameWidth, bottom, "start", "0")
	p.text(margin+nameWidth+width, bottom, "end", total.Round(time.Microsecond).String())
	p.add(`</svg>`)
	return p.err
}
