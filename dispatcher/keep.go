package dispatcher

import "time"

// A kept message holds its keys, but has no worker and is not ready for one
// either, for one of three reasons:
//
//   - it waits for its next attempt (StateBackoff, with a timer, retry.go);
//   - its handler has returned and it waits to be finished (StateHeld, with a
//     timer, hold.go);
//   - this dispatcher will not try it again, and Shutdown will return it
//     (StateBackoff, without a timer).
//
// A timer's function takes the mutex and then checks whether the message is
// still kept for the reason that the timer was started for, because Stop is too
// late for a timer that has fired and waits for the mutex.

// keepLocked keeps t, which holds its keys, for the reason that state names.
func (d *Dispatcher[M]) keepLocked(t *task[M], state State) {
	t.state = state
	d.mu.kept[t] = struct{}{}
	t.more().since = time.Now()
	if state == StateHeld {
		d.mu.held++
	}
}

// startTimer calls f after a delay, unless t is no longer kept by then.
func (t *task[M]) startTimer(delay time.Duration, f func()) {
	t.more().timer = time.AfterFunc(delay, f)
	t.extra.due = time.Now().Add(delay)
}

// stopTimer stops the timer of a message that is kept, if it has one.
func (t *task[M]) stopTimer() {
	if t.extra != nil && t.extra.timer != nil {
		t.extra.timer.Stop()
		t.extra.timer = nil
	}
}

// unkeepLocked removes t from the kept messages and stops its timer.
func (d *Dispatcher[M]) unkeepLocked(t *task[M]) {
	delete(d.mu.kept, t)
	t.stopTimer()
}
