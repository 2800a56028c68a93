package replay

import (
	"context"
	"slices"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// want is one call of Replay. Each place of its range is in missing, failed
// or never, or has been delivered. Only the goroutine of the call uses it.
type want struct {
	stream   lockkeys.Key
	before   int // events that are still welcome besides those of the range
	deliver  func(ctx context.Context, events []*ordering.Event) error
	missing  blocks  // still to be requested
	failed   blocks  // given up
	never    blocks  // never existed
	requests int     // number of requests made
	errs     []error // the last one of each source
}

// take delivers a valid answer. The error is that of deliver.
func (w *want) take(ctx context.Context, a Answer) error {
	for _, e := range a.Events {
		if p, ok := e.On(w.stream); ok {
			n := p.Place()
			w.missing = w.missing.cut(n, n)
			w.failed = w.failed.cut(n, n)
			w.never = w.never.cut(n, n)
		}
	}
	for _, r := range a.NoSuch {
		from, to := r.Places()
		for _, open := range []*blocks{&w.missing, &w.failed} {
			w.never = w.never.add(open.within(from, to)...)
			*open = open.cut(from, to)
		}
	}
	if len(a.Events) == 0 {
		return nil
	}
	w.before = max(0, w.before-len(a.Before))
	return w.deliver(ctx, slices.Concat(a.Before, a.Events))
}

// next returns the first block that the source with index i is to be asked for.
func (w *want) next(i int, s *source) *block {
	for k := range w.missing {
		if b := &w.missing[k]; b.asked <= i && slices.Contains(b.left, s) {
			return b
		}
	}
	return nil
}

// misses reports whether a place is still to be asked for.
func (w *want) misses(n uint64) bool {
	i, j := w.missing.overlap(n, n)
	return i < j
}

// wasAsked reports whether a source was asked in the attempt and has tried to answer.
func (w *want) wasAsked() bool {
	return slices.ContainsFunc(w.missing, func(b block) bool { return b.asked > 0 })
}

// endAttempt counts an attempt for the blocks that were requested, or for all if
// no source could be asked, and gives up those for which it was the last.
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

// ready returns when the first source may be asked, of those still to be asked for
// a block.
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

// unanswered returns the error for the blocks given up, nil if there are none.
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
