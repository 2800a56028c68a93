package replay

import (
	"context"
	"slices"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// want is one call of Replay. Each number of its range is in missing, failed
// or never, or has been delivered. Only the goroutine of the call uses it.
type want struct {
	stream   lockkeys.Key
	deliver  func(ctx context.Context, events []*ordering.Event) error
	missing  blocks  // still to be asked for
	failed   blocks  // given up
	never    blocks  // never existed
	requests int     // made for it
	errs     []error // by source, the last one
}

// take delivers an answer that was found good. The error is that of deliver.
func (w *want) take(ctx context.Context, a Answer) error {
	for _, e := range a.Events {
		if n, ok := e.On(w.stream); ok {
			w.missing = w.missing.cut(n, n)
			w.failed = w.failed.cut(n, n)
			w.never = w.never.cut(n, n)
		}
	}
	for _, r := range a.NoSuch {
		for _, open := range []*blocks{&w.missing, &w.failed} {
			w.never = w.never.add(open.within(r.From, r.To)...)
			*open = open.cut(r.From, r.To)
		}
	}
	if len(a.Events) == 0 {
		return nil
	}
	return w.deliver(ctx, a.Events)
}

// next returns the first block for which the source with index i has its turn.
func (w *want) next(i int, s *source) *block {
	for k := range w.missing {
		if b := &w.missing[k]; b.asked <= i && slices.Contains(b.left, s) {
			return b
		}
	}
	return nil
}

// misses tells whether a number is still to be asked for.
func (w *want) misses(n uint64) bool {
	i, j := w.missing.overlap(n, n)
	return i < j
}

// endAttempt counts an attempt for the blocks that were asked for, or for all
// if nothing could be asked, and gives up those for which it was the last.
func (w *want) endAttempt(most int, idle bool) {
	var still blocks
	for _, b := range w.missing {
		if b.asked > 0 || idle {
			b.attempts++
		}
		b.asked = 0
		if b.attempts >= most || len(b.left) == 0 {
			w.failed = w.failed.add(b)
		} else {
			still = append(still, b)
		}
	}
	w.missing = still
}

// ready is when the first source may be asked that is worth asking.
func (w *want) ready() time.Time {
	var first time.Time
	for i, b := range w.missing {
		for k, s := range b.left {
			if t := s.ready(); i == 0 && k == 0 || t.Before(first) {
				first = t
			}
		}
	}
	return first
}

// giveUp makes the missing numbers that another replay has failed to get
// failed here as well.
func (w *want) giveUp(failed blocks, errs []error) {
	for _, f := range failed {
		if parts := w.missing.within(f.from, f.to); len(parts) > 0 {
			w.failed = w.failed.add(parts...)
			w.missing = w.missing.cut(f.from, f.to)
			w.errs = slices.Clone(errs)
		}
	}
}

// unanswered is the error for what was given up, nil if nothing was.
func (w *want) unanswered() error {
	if len(w.failed) == 0 {
		return nil
	}
	e := &UnansweredError{Missing: w.failed.ranges(w.stream), Attempts: w.requests}
	for _, err := range w.errs {
		if err != nil {
			e.Errs = append(e.Errs, err)
		}
	}
	return e
}
