package ordering

import (
	"strconv"
	"time"
)

// task is an event on its way through the sequencer.
type task struct {
	event    *Event
	fences   []int64
	attempts int
	started  time.Time
	held     bool

	committed bool
}

// record is the outcome of the task's event, as a store keeps it.
func (t *task) record(status Status, ended time.Time, errText string) Record {
	return Record{Event: t.event, Fences: t.fences, Held: t.held, JobState: JobState{
		Event: t.event.Name(), Positions: t.event.Positions, Status: status,
		Attempts: t.attempts, Error: errText, Started: t.started, Ended: ended,
	}}
}

func utoa(n uint64) string { return strconv.FormatUint(n, 10) }
