package dispatcher

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/interlock-go/interlock/internal/contain"
)

// worker is one goroutine that runs handlers, and its state. The fields belong
// to that goroutine, except that index never changes, and batch is read by
// others under Dispatcher.mu and therefore changed under it.
type worker[M any] struct {
	d     *Dispatcher[M]
	index int
	batch []*task[M] // running; empty between messages

	// Results of batch, up to the last message that its handler got to; nil until
	// that has returned.
	results   []error
	senseless bool      // a BatchHandler returned a wrong number of results
	outcomes  []outcome // of the messages of batch judged so far
	cause     error     // why the work on batch was undone
	chain     int       // handlers of batch called so far in a call of Together
	begun     time.Time // of the attempt under way, if a message of batch is sampled
	one       [1]error  // scratch for results

	host   host               // of the contexts of its handlers
	scopes []scope            // contexts for the next attempts
	scope  *scope             // of the attempt under way, until it is settled
	cancel context.CancelFunc // of its time limit, if it has one and is not held
	// resumed is set if the message of the attempt was held and is finished:
	// then no handler is called, only its result is judged.
	resumed *hold[M]
}

// loop runs a worker: it releases one message and takes the next in one
// critical section. If a handler or a callback ends the goroutine, another one
// continues where it was.
func (w *worker[M]) loop() {
	defer w.d.enlist()()
	if len(w.batch) > 0 {
		w.takeOver()
	}
	for w.next() {
		w.run()
	}
}

// takeOver finishes a batch during which the goroutine was ended.
func (w *worker[M]) takeOver() {
	switch {
	case w.results != nil:
		w.d.cfg.Logger.Error("completion callback or Measure called runtime.Goexit", "messages", len(w.outcomes))
	case w.isChain():
		w.undone(ErrGoexit)
	default:
		w.results = FailAll(ErrGoexit, len(w.batch))
	}
	w.finish()
}

// next settles the batch that has run and takes the next one, waiting for it if
// necessary. It returns false when the worker has to end: after Shutdown, when
// no message is held any more.
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
		if d.mu.closing && d.mu.held == 0 {
			d.endWorkerLocked()
			return false
		}
		if d.mu.left.count > 0 {
			d.intake.giveBack(&d.mu.left)
		}
		d.quietLocked() // takeLocked may have put the last message behind a parked one
		d.idle.Add(1)
		if !d.canStartLocked() { // checked after idle was counted; see "Waking workers"
			d.mu.work.Wait()
			d.waking.Store(false)
		}
		d.idle.Add(-1)
		t = d.takeLocked()
	}
	if t.state == StateHeld {
		w.resumeLocked(t)
		return true
	}
	d.gatherLocked(w, t)
	d.startLocked(w)
	return true
}

// run calls the handler for the batch, judges the results, and completes the
// messages that have ended.
func (w *worker[M]) run() {
	if w.d.cfg.Measure != nil {
		w.startTiming()
	}
	switch {
	case w.resumed != nil:
		w.one[0] = w.heldResult()
		w.results = w.one[:]
	case w.isChain():
		w.callChain()
	case w.d.cfg.BatchHandler == nil || w.batch[0].keyErr() != nil:
		w.one[0] = w.call(&w.host, w.batch[0])
		w.results = w.one[:]
	default:
		w.results = w.callBatch()
	}
	w.finish()
}

// call runs the handler for one message.
func (w *worker[M]) call(h *host, t *task[M]) (err error) {
	if err := t.keyErr(); err != nil {
		return err
	}
	ctx := w.begin(h, t)
	defer w.end()
	defer contain.Recover(&err)
	return w.timeout(ctx, w.d.cfg.Handler(ctx, t.msg))
}

// callBatch runs the batch handler.
func (w *worker[M]) callBatch() []error {
	n := len(w.batch)
	// Not reused: a goroutine that outlives the handler would find the next messages there.
	messages := make([]M, n)
	for i, t := range w.batch {
		messages[i] = t.msg
	}
	ctx := w.begin(&w.host, w.batch[0])
	defer w.end()
	results, err := w.batchResults(ctx, messages)
	switch {
	case err != nil:
		return FailAll(err, n)
	case len(results) == 0:
		return make([]error, n)
	case len(results) == n:
		for i, err := range results {
			results[i] = w.timeout(ctx, err)
		}
		return results
	}
	w.senseless = true
	return FailAll(Permanent(fmt.Errorf("%w: %d for %d messages", errResults, len(results), n)), n)
}

// batchResults calls the batch handler; err is its panic.
func (w *worker[M]) batchResults(ctx context.Context, messages []M) (results []error, err error) {
	defer contain.Recover(&err)
	results = slices.Clone(w.d.cfg.BatchHandler(ctx, messages)) // the slice stays the handler's
	for i := range results {
		results[i] = contain.Readable(results[i])
	}
	return results, nil
}

// The number of scopes allocated at a time: many enough to make the cost for
// each message negligible, few enough that a scope kept by a handler keeps
// little memory alive; fewer if they have the values of submitters' contexts,
// which they keep alive until all of them have been used.
const (
	scopesAtOnce = 256
	valuedScopes = 32
)

// begin returns the context of the next call of the handler, for t. end must be
// called when that has returned.
func (w *worker[M]) begin(h *host, t *task[M]) context.Context {
	d := w.d
	if len(w.scopes) == 0 {
		n := scopesAtOnce
		if t.values != nil {
			n = valuedScopes
		}
		w.scopes = make([]scope, n)
	}
	s := &w.scopes[0]
	w.scope, w.scopes = s, w.scopes[1:]
	s.host, s.values, s.id, s.attempt = h, t.values, t.id, t.attempts
	if d.cfg.Timeout > 0 {
		limited := *h
		limited.base, w.cancel = context.WithTimeoutCause(h.base, d.cfg.Timeout, ErrTimeout)
		s.host = &limited
	}
	return s
}

func (w *worker[M]) end() {
	w.scope.returned(&w.d.mu)
	if w.cancel != nil { // nil without a time limit, or if Hold has taken it over
		w.cancel()
		w.cancel = nil
	}
}

// timeout wraps an error returned after the time limit with ErrTimeout.
func (w *worker[M]) timeout(ctx context.Context, err error) error {
	if err != nil && w.d.cfg.Timeout > 0 && context.Cause(ctx) == ErrTimeout {
		return fmt.Errorf("%w (%v): %w", ErrTimeout, w.d.cfg.Timeout, err)
	}
	return err
}
