package dispatcher

// settleLocked ends the running of w's batch: messages that ended release
// their keys, the others go where their outcome says.
func (d *Dispatcher[M]) settleLocked(w *worker[M]) {
	// Those that the handler did not get to go back first, the last one first,
	// so that what is done with the one before them finds them waiting, in
	// their places by their arrival: who widened meanwhile may go before them.
	for i := len(w.batch) - 1; i > 0 && w.outcomes[i].kind == untouched; i-- {
		t := w.batch[i]
		t.attempts--
		d.mu.stats.Started--
		d.waitLocked(t)
		d.wakeLocked(d.mu.set.Replace(&t.place, &t.claim, d.mu.woken[:0]))
	}
	for i, t := range w.batch {
		o := &w.outcomes[i]
		if o.err != nil && o.kind != widened {
			t.err = o.err
		}
		switch o.kind {
		case ended:
			d.endLocked(t, w.index, o.err)
		case failed:
			d.mu.stats.Retried++
			d.backoffLocked(t, w.index)
		case widened:
			t.attempts--
			d.widenLocked(t, o.err.(*WidenError).Requests, w.index)
		case parked:
			d.parkLocked(t, w.index)
		case stopped:
			d.stopLocked(o.err)
			d.emitLocked(Halted, t, w.index, o.err)
			d.holdLocked(t)
		case interrupted:
			t.attempts--
			d.emitLocked(Halted, t, w.index, o.err)
			d.holdLocked(t)
		case untouched:
		}
		w.batch[i], *o = nil, outcome{}
	}
	if w.scope != nil {
		w.scope.phase.Store(attemptOver)
		w.scope = nil
	}
	w.batch, w.results, w.senseless = w.batch[:0], nil, false
	w.outcomes = w.outcomes[:0]
}

// endLocked releases what an ended message holds. It must have its result.
func (d *Dispatcher[M]) endLocked(t *task[M], worker int, err error) {
	if err == nil {
		d.mu.stats.Succeeded++
	} else {
		d.mu.stats.Failed++
	}
	d.emitLocked(Finished, t, worker, err)
	d.endSlotLocked(t)
	if t.apart {
		d.returnLocked(d.mu.closed.Remove(&t.place, d.mu.woken[:0]))
	} else {
		d.wakeLocked(d.mu.set.Remove(&t.place, d.mu.woken[:0]))
	}
	t.reset()
	d.reuseLocked(t)
}

// reuseLocked keeps a task that was reset for its next use: a few at hand, the
// last one first since the processor still has it in its cache, others for as
// long as the garbage collector lets them be.
func (d *Dispatcher[M]) reuseLocked(t *task[M]) {
	const atHand = 64
	if d.mu.spares == atHand {
		d.tasks.Put(t)
		return
	}
	d.mu.spares++
	t.next, d.mu.spare = d.mu.spare, t
}

// spareLocked returns a task for a message.
func (d *Dispatcher[M]) spareLocked() *task[M] {
	t := d.mu.spare
	if t != nil {
		d.mu.spares--
		d.mu.spare, t.next = t.next, nil
		return t
	}
	t, ok := d.tasks.Get().(*task[M])
	if !ok {
		t = new(task[M])
		t.place.Owner = t
	}
	return t
}

// holdLocked keeps a message that will not be tried again by this dispatcher
// for Shutdown to return.
func (d *Dispatcher[M]) holdLocked(t *task[M]) {
	t.state = StateBackoff
	d.mu.backoff[t] = struct{}{}
}

func (d *Dispatcher[M]) leaveSlotLocked(t *task[M]) {
	if t.holdsSlot {
		t.holdsSlot = false
		d.mu.left.count++
		d.mu.left.bytes += t.size
		// Who waits for a slot while a worker is idle may have what that
		// worker could run.
		if d.mu.left.count >= d.intake.batch || d.idle.Load() > 0 && d.intake.waiting.Load() > 0 {
			d.intake.giveBack(&d.mu.left)
		}
	}
}
