package dispatcher

// backoffLocked keeps t until its next attempt.
func (d *Dispatcher[M]) backoffLocked(t *task[M], worker int) {
	d.keepLocked(t, StateBackoff)
	d.emitLocked(Retried, t, worker, t.err)
	if d.mu.closing || d.mu.stopped != nil {
		return
	}
	id := t.id
	t.startTimer(d.cfg.Backoff.Wait(t.tries()), func() { d.retry(t, id) })
}

// retry ends the back-off of t, if t still belongs to the message with that id.
func (d *Dispatcher[M]) retry(t *task[M], id uint64) {
	d.mu.Lock()
	defer d.letGo()
	if _, ok := d.mu.kept[t]; !ok || t.state != StateBackoff || t.id != id || d.mu.closing || d.mu.stopped != nil {
		return
	}
	d.unkeepLocked(t)
	d.restartLocked(t)
}

// restartLocked makes a message that holds its keys ready for another attempt.
// Keys that it released during the last one must be acquired again first.
func (d *Dispatcher[M]) restartLocked(t *task[M]) {
	if len(t.gone()) > 0 {
		d.widenLocked(t, nil, -1)
		return
	}
	d.readyLocked(t)
}
