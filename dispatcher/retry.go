package dispatcher

import (
	"time"

	"github.com/cenkalti/backoff/v5"
)

// backoffLocked makes t wait for its next attempt. It holds its keys but no
// worker.
func (d *Dispatcher[M]) backoffLocked(t *task[M], worker int) {
	d.holdLocked(t)
	d.emitLocked(Retried, t, worker, t.err)
	if d.mu.closing || d.mu.stopped != nil {
		return
	}
	x := t.more()
	if x.delays == nil {
		x.delays = &backoff.ExponentialBackOff{
			InitialInterval:     d.cfg.Backoff.Initial,
			MaxInterval:         d.cfg.Backoff.Max,
			Multiplier:          d.cfg.Backoff.Multiplier,
			RandomizationFactor: d.cfg.Backoff.Jitter,
		}
		x.delays.Reset()
	}
	id := t.id
	x.timer = time.AfterFunc(x.delays.NextBackOff(), func() { d.retry(t, id) })
}

// retry ends the back-off of t, if it still is the message with that id.
func (d *Dispatcher[M]) retry(t *task[M], id uint64) {
	d.mu.Lock()
	defer d.letGo()
	if _, ok := d.mu.backoff[t]; !ok || t.id != id || d.mu.closing || d.mu.stopped != nil {
		return
	}
	delete(d.mu.backoff, t)
	d.restartLocked(t)
}

// restartLocked makes a message that has its keys ready for another attempt.
// Keys that it gave back during the last one it must take again first.
func (d *Dispatcher[M]) restartLocked(t *task[M]) {
	if len(t.gone()) > 0 {
		d.widenLocked(t, nil, -1)
		return
	}
	d.readyLocked(t)
}
