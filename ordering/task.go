package ordering

import (
	"strconv"
	"time"
)

// task is an event on its way through the sequencer. Until it is submitted,
// and again once it has ended, the mutex guards it; in between it belongs to
// the worker that runs it, but for joined.
type task struct {
	event    *Event
	done     Done
	slots    []slot  // one for each of the event's positions
	fences   []int64 // likewise, from when it is submitted
	attempts int     // calls of the handler
	started  time.Time
	held     bool     // the store has a copy
	fedBy    *stream  // as part of whose feeding it came from the store
	fills    *parking // it is what this one misses
	early    bool     // it waits for an earlier event
	arrived  time.Time
	joined   []twin // copies that came while it was on its way
	told     int    // of it and its copies, how many were told of the outcome

	handled   bool   // the handler has succeeded, and it is the commit that has not
	committed bool   // by the handler
	doubtful  bool   // a commit was tried, and it may have been made durable
	looked    bool   // the store was asked after the last attempt, and knows nothing of it
	checked   bool   // the store was asked before it arrived again, and knows nothing of it
	failure   error  // for good
	refusal   error  // of Keys
	policy    Policy // when it failed for good
	outcome   Outcome

	fewSlots  [2]slot // what slots and fences mostly are
	fewFences [2]int64
}

// slot is a position of a task.
type slot struct {
	stream *stream
	number uint64
}

// twin is a copy of an event that came while another was on its way.
type twin struct {
	event *Event
	done  Done
}

func (s *Sequencer) newTask(e *Event, done Done) *task {
	t := s.tasks.Get().(*task)
	t.event, t.done = e, done
	t.slots, t.fences = t.fewSlots[:0], t.fewFences[:0]
	return t
}

// recycle gives back a task that nothing refers to any more.
func (s *Sequencer) recycle(t *task) {
	*t = task{}
	s.tasks.Put(t)
}

// streams returns the streams of the task.
func (t *task) streams() []*stream {
	streams := make([]*stream, len(t.slots))
	for i, slot := range t.slots {
		streams[i] = slot.stream
	}
	return streams
}

// isLost tells whether a stream of the task has another holder.
func (t *task) isLost() bool {
	for _, slot := range t.slots {
		if slot.stream.lost.Load() {
			return true
		}
	}
	return false
}

// record is the outcome of the task's event, as a store keeps it.
func (t *task) record(status Status, errText string) Record {
	return Record{Event: t.event, Fences: t.fences, Held: t.held, JobState: JobState{
		Event: t.event.Name(), Hash: t.event.Hash(), Positions: t.event.Positions, Status: status,
		Attempts: t.attempts, Error: errText, Started: t.started, Ended: t.now(),
	}}
}

// now is the time; reading it from the beginning of the first attempt on is
// less work.
func (t *task) now() time.Time {
	if t.started.IsZero() {
		return time.Now()
	}
	return t.started.Add(time.Since(t.started))
}

// heldEvent is the task's event as a store holds it.
func (t *task) heldEvent() HeldEvent {
	return HeldEvent{Event: t.event, Attempts: t.attempts, Started: t.started}
}

func utoa(n uint64) string { return strconv.FormatUint(n, 10) }
