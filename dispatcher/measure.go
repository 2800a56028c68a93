package dispatcher

import (
	"time"

	"github.com/interlock-go/interlock/internal/contain"
)

// Measurement tells how long one message took; see [Config.Measure]. Of one that was resumed,
// Waited, Held and Handled are the times since.
type Measurement struct {
	ID       uint64 // as in [Info]
	Worker   int    // that calls Measure, from 0
	Attempts int    // begun; 0 if its keys could not be derived
	Parked   bool   // it was parked with Err
	Err      error  // its result, if it was not parked

	Waited time.Duration // in StateWaiting: behind conflicting or parked messages
	Held   time.Duration // in StateHeld

	// Sampled reports whether the message is part of the random sample. If it is not,
	// the fields below are zero.
	Sampled   bool
	Submitted time.Time     // when Submit was called; the queue may have had no room yet
	Started   time.Time     // when its first attempt began
	Finished  time.Time     // when its last attempt ended
	Handled   time.Duration // in its handler, all attempts together; in a batch or chain, all of that
}

// timing holds the times of a message that is part of the sample. It belongs to the
// submitter, and then to the worker that runs the message.
type timing struct {
	submitted, started, finished time.Time
	handled                      time.Duration
}

// timing returns the times of t, or nil if it is not part of the sample.
func (t *task[M]) timing() *timing {
	if t.extra == nil {
		return nil
	}
	return t.extra.timing
}

// endWaitLocked notes that t does not wait any more.
func (d *Dispatcher[M]) endWaitLocked(t *task[M]) {
	if d.cfg.Measure != nil {
		t.waited += time.Since(d.made) - t.blocked
	}
}

// endHoldLocked notes that t is not held any more.
func (d *Dispatcher[M]) endHoldLocked(t *task[M]) {
	if d.cfg.Measure != nil {
		t.extra.held += time.Since(t.extra.since)
	}
}

// startTiming notes when an attempt begins, if a message of the batch is part of the
// sample.
func (w *worker[M]) startTiming() {
	for _, t := range w.batch {
		if t.timing() != nil {
			w.begun = time.Now()
			return
		}
	}
}

// stopTiming notes when the attempt has ended, for the messages that the handler got to.
func (w *worker[M]) stopTiming() {
	if w.begun.IsZero() {
		return
	}
	now := time.Now()
	for _, t := range w.batch[:len(w.results)] {
		if times := t.timing(); times != nil {
			if times.started.IsZero() {
				times.started = w.begun
			}
			times.finished = now
			times.handled += now.Sub(w.begun)
		}
	}
	w.begun = time.Time{}
}

// measure tells Config.Measure of a message that has ended or is about to be parked, if
// it is one to be measured.
func (d *Dispatcher[M]) measure(t *task[M], worker int, o outcome) {
	if t.extra == nil && t.waited == 0 && t.attempts <= 1 && o.err == nil {
		return
	}
	m := Measurement{ID: t.id, Worker: worker, Attempts: int(t.attempts), Parked: o.kind == parked, Err: o.err, Waited: t.waited}
	if t.extra != nil {
		m.Held = t.extra.held
	}
	if times := t.timing(); times != nil {
		m.Sampled = true
		m.Submitted, m.Started, m.Finished, m.Handled = times.submitted, times.started, times.finished, times.handled
	}
	if !m.Sampled && m.Waited == 0 && m.Held == 0 && m.Attempts <= 1 && m.Err == nil {
		return
	}
	if m.Parked {
		t.startAnew()
	}
	if caught := d.callMeasure(m); caught != nil {
		d.cfg.Logger.Error("Measure panicked", append(d.about(t.id, t.msg, t.claim.Requests()), "err", caught)...)
	}
}

// startAnew forgets the times that were told when t was parked, so that they add up with
// those of a later measurement.
func (t *task[M]) startAnew() {
	t.waited = 0
	if t.extra != nil {
		t.extra.held = 0
	}
	if times := t.timing(); times != nil {
		times.handled = 0
	}
}

func (d *Dispatcher[M]) callMeasure(m Measurement) (caught error) {
	defer contain.Recover(&caught)
	d.cfg.Measure(m)
	return nil
}
