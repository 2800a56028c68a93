package replay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// Replayer fetches missing events from sources that may fail. It implements
// [ordering.Replayer]; see the package documentation. It is safe for concurrent
// use and has no goroutines of its own, so there is nothing to close.
type Replayer struct {
	cfg     Config
	sources []*source
	slots   *semaphore.Weighted // MaxOpen requests, first come first served

	mu struct {
		sync.Mutex
		stats Stats
	}
}

var _ ordering.Replayer = (*Replayer)(nil)

// New returns a Replayer. The error wraps [ErrConfig].
func New(cfg Config) (*Replayer, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	r := &Replayer{cfg: cfg, slots: semaphore.NewWeighted(int64(cfg.MaxOpen))}
	for _, s := range cfg.Sources {
		r.sources = append(r.sources, newSource(s, cfg))
	}
	return r, nil
}

// Replay implements [ordering.Replayer]. Its error is an [*UnansweredError] if
// numbers remain unanswered, that of deliver unchanged, or one that wraps
// [ErrRange] or the context's error.
//
// Calls do not share requests: a sequencer has one open call for each stream.
func (r *Replayer) Replay(ctx context.Context, missing ordering.Range, deliver func(ctx context.Context, events []*ordering.Event) error) (ordering.Answer, error) {
	switch {
	case missing.From == 0 || missing.From > missing.To || missing.To > ordering.MaxNumber:
		return ordering.Answer{}, fmt.Errorf("%w: %v: it must be rising, from 1 to %d", ErrRange, missing, int64(ordering.MaxNumber))
	case deliver == nil:
		return ordering.Answer{}, fmt.Errorf("%w: %v: deliver is nil", ErrRange, missing)
	}
	from, to := missing.Places()
	w := &want{
		stream:  missing.Stream,
		before:  max(0, min(missing.Before, r.cfg.MaxEvents/2)),
		deliver: deliver,
		missing: blocks{{from: from, to: to, left: r.sources}},
		errs:    make([]error, len(r.sources)),
	}
	r.count(func(s *Stats) { s.Open++ })
	err := r.run(ctx, w)
	if err == nil {
		err = w.unanswered()
	}
	r.count(func(s *Stats) {
		s.Open--
		s.Replays++
		if e := (*UnansweredError)(nil); errors.As(err, &e) {
			s.Unanswered++
		}
	})
	return ordering.Answer{NoSuch: w.never.ranges(w.stream), Attempts: w.requests}, err
}

// run makes attempts until everything is delivered or given up.
func (r *Replayer) run(ctx context.Context, w *want) error {
	vain := 0 // attempts in a row without any answer
	for began := time.Now(); ; {
		rest := min(time.Until(w.ready()), r.cfg.MaxWait-time.Since(began))
		if err := sleep(ctx, rest); err != nil {
			return ended(ctx, w.missing[0].on(w.stream))
		}
		size := w.missing.size()
		for i := range r.sources {
			if err := r.ask(ctx, w, i); err != nil {
				return err
			}
		}
		if w.missing.size() < size {
			vain = 0
		}
		switch {
		case w.wasAsked():
			w.endAttempt(r.cfg.Attempts, false)
			began = time.Now()
		case time.Since(began) >= r.cfg.MaxWait:
			w.endAttempt(r.cfg.Attempts, true)
			began = time.Now()
		}
		if len(w.missing) == 0 {
			return nil
		}
		vain++
		if err := sleep(ctx, r.cfg.Backoff.Wait(vain)); err != nil {
			return ended(ctx, w.missing[0].on(w.stream))
		}
	}
}

// ask asks one source for all missing blocks, and again for the rest of a block
// after a partial answer.
func (r *Replayer) ask(ctx context.Context, w *want, i int) error {
	s := r.sources[i]
	for b := w.next(i, s); b != nil; b = w.next(i, s) {
		asked := b.on(w.stream)
		asked.Before = w.before
		a, err := r.request(ctx, s, asked)
		if err != nil && ctx.Err() != nil {
			return ended(ctx, asked)
		}
		if errors.Is(err, ErrResting) {
			if w.errs[i] == nil {
				w.errs[i] = &SourceError{s.Name, asked, err}
			}
			return nil
		}
		w.requests++
		if err != nil && RetryAfterOf(err) > 0 && !dispatcher.IsPermanent(err) { // it has not tried
			w.errs[i] = &SourceError{s.Name, asked, err}
			return nil
		}
		b.asked = i + 1
		if err != nil {
			w.errs[i] = &SourceError{s.Name, asked, err}
			if dispatcher.IsPermanent(err) || errors.Is(err, ErrNotRetained) {
				b.left = without(b.left, s)
			}
			continue
		}
		reason := ErrNoAnswer
		if s.Copy && len(a.NoSuch) > 0 {
			a.NoSuch, reason = nil, ErrCopy
		}
		if err := w.take(ctx, a); err != nil {
			return err
		}
		if from, _ := asked.Places(); w.misses(from) {
			w.errs[i] = &SourceError{s.Name, asked, reason}
		}
	}
	return nil
}

// request makes one request, as soon as MaxOpen allows.
func (r *Replayer) request(ctx context.Context, s *source, asked ordering.Range) (Answer, error) {
	if err := r.slots.Acquire(ctx, 1); err != nil {
		return Answer{}, err
	}
	defer r.slots.Release(1)
	return s.fetch(ctx, asked)
}

func (b *block) on(stream lockkeys.Key) ordering.Range {
	return ordering.RangeAt(stream, b.from, b.to)
}

func without(list []*source, s *source) []*source {
	var rest []*source
	for _, x := range list {
		if x != s {
			rest = append(rest, x)
		}
	}
	return rest
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func ended(ctx context.Context, r ordering.Range) error {
	return fmt.Errorf("replay: %v: %w", r, ctx.Err())
}
