package dispatcher

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
)

// worker is one goroutine that runs handlers, and what it works on. But for
// index, its fields belong to that goroutine; batch is read by others under
// Dispatcher.mu and therefore changed under it.
type worker[M any] struct {
	d     *Dispatcher[M]
	index int
	batch []*task[M] // running; empty between messages

	results   []error   // of batch; nil until its handler has returned
	senseless bool      // a BatchHandler gave results that make no sense
	outcomes  []outcome // of batch, as far as they are judged
	one       [1]error  // scratch for results
	messages  []M       // scratch for BatchHandler

	host   host               // of the contexts of its handlers
	scopes []scope            // contexts for the next attempts
	scope  *scope             // of the attempt under way, until it is settled
	cancel context.CancelFunc // of its time limit, if it has one
}

// loop is the life of a worker: the end of one message and the beginning of
// the next happen under one hold of the mutex. If a handler or a callback ends
// the goroutine, another takes the worker over where it was.
func (w *worker[M]) loop() {
	returned := false
	defer func() {
		if !returned { // a panic was caught, so this is runtime.Goexit
			go w.loop()
		}
	}()
	defer w.d.enlist()()
	if len(w.batch) > 0 {
		w.takeOver()
	}
	for w.next() {
		w.run()
	}
	returned = true
}

// takeOver ends the run of a batch in which the goroutine was ended.
func (w *worker[M]) takeOver() {
	if w.results == nil {
		w.results = FailAll(ErrGoexit, len(w.batch))
	} else {
		w.d.cfg.Logger.Error("completion callback called runtime.Goexit", "messages", len(w.outcomes))
	}
	w.finish()
}

// next settles the batch that has run and takes the next one, waiting for it
// if need be. It returns false when the worker is to end.
func (w *worker[M]) next() bool {
	d := w.d
	d.mu.Lock()
	defer d.letGo()
	d.settleLocked(w)
	if d.mu.events.full() {
		d.signalLocked()
		d.mu.events.waitLocked()
	}
	t := d.takeLocked()
	for t == nil {
		if d.mu.closing {
			d.endWorkerLocked()
			return false
		}
		if d.mu.left.count > 0 {
			d.intake.giveBack(&d.mu.left)
		}
		d.quietLocked() // the last one looked at may be behind a parked one
		d.idle.Add(1)
		if !d.canStartLocked() { // now that submitters see it is idle
			d.mu.work.Wait()
			d.waking.Store(false)
		}
		d.idle.Add(-1)
		t = d.takeLocked()
	}
	d.gatherLocked(w, t)
	d.startLocked(w)
	return true
}

// run calls the handler for the batch, judges the results, and tells those
// whose messages have ended.
func (w *worker[M]) run() {
	if w.d.cfg.BatchHandler == nil || w.batch[0].keyErr() != nil {
		w.one[0] = w.call()
		w.results = w.one[:]
	} else {
		w.results = w.callBatch()
	}
	w.finish()
}

// call runs the handler for a single message.
func (w *worker[M]) call() (err error) {
	t := w.batch[0]
	if err := t.keyErr(); err != nil {
		return err
	}
	ctx := w.begin()
	defer w.end()
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{v, debug.Stack()}
		}
	}()
	return w.timeout(ctx, w.d.cfg.Handler(ctx, t.msg))
}

// callBatch runs the batch handler.
func (w *worker[M]) callBatch() (results []error) {
	n := len(w.batch)
	for _, t := range w.batch {
		w.messages = append(w.messages, t.msg)
	}
	ctx := w.begin()
	defer w.end()
	defer func() {
		clear(w.messages)
		w.messages = w.messages[:0]
		if v := recover(); v != nil {
			results = FailAll(&PanicError{v, debug.Stack()}, n)
		}
	}()
	results = slices.Clone(w.d.cfg.BatchHandler(ctx, w.messages)) // what it gave stays the handler's
	switch len(results) {
	case 0:
		return make([]error, n)
	case n:
		for i, err := range results {
			results[i] = w.timeout(ctx, err)
		}
		return results
	}
	w.senseless = true
	return FailAll(Permanent(fmt.Errorf("%w: %d for %d messages", errResults, len(results), n)), n)
}

// scopesAtOnce is how many scopes are made at a time: so many that they do not
// show among a message's costs, so few that one which is kept keeps little.
const scopesAtOnce = 256

// begin returns the context of the next call of the handler. end must be called
// when that has returned.
func (w *worker[M]) begin() context.Context {
	d, t := w.d, w.batch[0]
	if len(w.scopes) == 0 {
		w.scopes = make([]scope, scopesAtOnce)
	}
	s := &w.scopes[0]
	w.scope, w.scopes = s, w.scopes[1:]
	s.host, s.id, s.attempt = &w.host, t.id, int32(t.attempts)
	if d.cfg.Timeout > 0 {
		limited := w.host
		limited.base, w.cancel = context.WithTimeoutCause(d.work, d.cfg.Timeout, ErrTimeout)
		s.host = &limited
	}
	return s
}

func (w *worker[M]) end() {
	if w.cancel != nil {
		w.cancel()
		w.cancel = nil
	}
	w.scope.returned(&w.d.mu)
}

// timeout marks an error that came after the time limit.
func (w *worker[M]) timeout(ctx context.Context, err error) error {
	if err != nil && w.d.cfg.Timeout > 0 && context.Cause(ctx) == ErrTimeout {
		return fmt.Errorf("%w (%v): %w", ErrTimeout, w.d.cfg.Timeout, err)
	}
	return err
}
