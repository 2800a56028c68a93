package dispatcher

// settleLocked applies the outcomes of w's batch: messages that ended release
// their keys, the others move to the state that follows.
func (d *Dispatcher[M]) settleLocked(w *worker[M]) {
	// Messages that the handler did not get to go back first, the last one
	// first, so that when the message in front of them is settled they already
	// wait, at their places by arrival: a message that has widened in the
	// meantime may now go before them.
	for i := len(w.batch) - 1; i >= 0 && w.outcomes[i].kind == untouched; i-- {
		t := w.batch[i]
		t.attempts--
		d.emitLocked(Undone, t, w.index, w.cause)
		if i == 0 { // it has its keys
			d.readyLocked(t)
			continue
		}
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
		case held:
			d.holdLocked(t, w.index)
			w.scope = nil // the attempt is not over
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
			d.keepLocked(t, StateBackoff)
		case interrupted:
			t.attempts--
			d.emitLocked(Halted, t, w.index, o.err)
			d.keepLocked(t, StateBackoff)
		case untouched:
		}
		t.batch = nil
		w.batch[i], *o = nil, outcome{}
	}
	if w.chain > 0 {
		d.mu.stats.Chains++
		if w.cause != nil {
			d.mu.stats.Undone++
		}
	}
	if w.scope != nil {
		w.scope.phase.Store(attemptOver)
		w.scope = nil
	}
	w.batch, w.results, w.senseless, w.chain, w.cause = w.batch[:0], nil, false, 0, nil
	w.outcomes = w.outcomes[:0]
}

// endLocked releases everything that an ended message holds. Its result must
// have been reported.
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

// reuseLocked keeps a task that was reset for reuse: up to 64 in a list, of
// which the last one, still in the processor's cache, is reused first; others
// in a sync.Pool.
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

func (d *Dispatcher[M]) leaveSlotLocked(t *task[M]) {
	if t.holdsSlot {
		t.holdsSlot = false
		d.mu.left.count++
		d.mu.left.bytes += t.size
		// A submitter that waits for a slot while a worker is idle may have a
		// message that this worker could run.
		if d.mu.left.count >= d.intake.batch || d.idle.Load() > 0 && d.intake.waiting.Load() > 0 {
			d.intake.giveBack(&d.mu.left)
		}
	}
}
