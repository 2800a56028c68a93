package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/contain"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// source is a source with its breaker.
type source struct {
	NamedSource
	cfg     Config
	breaker *gobreaker.CircuitBreaker[Answer]

	// The breaker calls changed under its own mutex, so under mu nothing calls
	// the breaker.
	mu struct {
		sync.Mutex
		rest    time.Time // no request before
		failure error     // of the last failed request
		changes []change  // of the breaker, not logged yet
		stats   SourceStats
	}
}

type change struct{ from, to gobreaker.State }

func newSource(named NamedSource, cfg Config) *source {
	s := &source{NamedSource: named, cfg: cfg}
	s.mu.stats.Name = named.Name
	s.breaker = gobreaker.NewCircuitBreaker[Answer](gobreaker.Settings{
		Name:          named.Name,
		Timeout:       cfg.Breaker.Open,
		ReadyToTrip:   func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= cfg.Breaker.Failures },
		OnStateChange: s.changed,
		IsSuccessful:  works,
		IsExcluded:    func(err error) bool { return dispatcher.IsPermanent(err) || RetryAfterOf(err) > 0 },
	})
	return s
}

// works reports whether err is nil or an answer of a working source.
func works(err error) bool {
	return err == nil || errors.Is(err, ErrNotRetained) || errors.Is(err, ErrNotAssigned)
}

// changed is called by the breaker, under its mutex.
func (s *source) changed(_ string, from, to gobreaker.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.changes = append(s.mu.changes, change{from, to})
	if to == gobreaker.StateOpen {
		// The breaker lets a request through only after that time, not at it.
		s.restLocked(s.cfg.Breaker.Open + time.Nanosecond)
	}
}

func (s *source) restLocked(d time.Duration) {
	if until := time.Now().Add(d); until.After(s.mu.rest) {
		s.mu.rest = until
	}
}

// ready returns when the source may be asked.
func (s *source) ready() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.rest
}

// fetch makes a request, unless the source must not be asked yet.
func (s *source) fetch(ctx context.Context, asked ordering.Range) (Answer, error) {
	if time.Now().Before(s.ready()) {
		return Answer{}, s.resting()
	}
	sent := false
	a, err := s.breaker.Execute(func() (Answer, error) {
		sent = true
		return s.fetchOnce(ctx, asked)
	})
	s.logChanges()
	if !sent {
		return Answer{}, s.resting()
	}
	if err == nil {
		if err = a.check(asked, s.cfg); err != nil {
			s.cfg.Logger.Warn("replay: answer refused", "source", s.Name, "asked", asked.String(), "err", err)
			a = Answer{}
		}
	}
	s.count(a, err)
	return a, err
}

func (s *source) fetchOnce(ctx context.Context, asked ordering.Range) (Answer, error) {
	limited, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	var a Answer
	err := contain.Apart(func() (err error) { // the breaker must be told of each outcome
		a, err = s.Source.Fetch(limited, asked)
		return err
	})
	switch {
	case err == nil:
		return a, nil
	case ctx.Err() != nil:
		return Answer{}, dispatcher.Permanent(err) // the caller left: the breaker must not count it
	case limited.Err() != nil:
		err = fmt.Errorf("no answer within %v: %w", s.cfg.Timeout, err)
	}
	if !works(err) {
		s.failed(err)
	}
	return Answer{}, err
}

// failed records a failure, before the breaker does.
func (s *source) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.failure = err
	s.restLocked(RetryAfterOf(err))
}

// check reports whether an answer can be used. The error wraps [ErrAnswer].
func (a Answer) check(asked ordering.Range, cfg Config) error {
	bad := func(text string, args ...any) error {
		return fmt.Errorf("%w: %w", ErrAnswer, fmt.Errorf(text, args...))
	}
	if n := max(len(a.Events)+len(a.Before), len(a.NoSuch)); n > cfg.MaxEvents {
		return bad("it has %d events or ranges, more than MaxEvents, %d", n, cfg.MaxEvents)
	}
	if n := len(a.Before); n > asked.Before {
		return bad("it has %d events before those of the range, %d were welcome", n, asked.Before)
	}
	var never blocks
	for _, r := range a.NoSuch {
		if r.Stream != asked.Stream || r.From == 0 || r.From > r.To || r.From > ordering.MaxNumber {
			return bad("%v is not a range of numbers of %v", r, asked.Stream)
		}
		from, to := r.Places()
		never = never.cut(from, to).add(block{from: from, to: to})
	}
	all := slices.Concat(a.Before, a.Events)
	var size int64
	for i, e := range all {
		if e == nil {
			return bad("event %d of %d is nil", i+1, len(all))
		}
		if size += e.Size(); size > cfg.MaxBytes {
			return bad("the events are larger than MaxBytes, %d", cfg.MaxBytes)
		}
		if err := e.Validate(); err != nil {
			return bad("event %d of %d: %w", i+1, len(all), err)
		}
	}
	numbers := make(map[uint64]*ordering.Event, len(a.Events))
	for _, e := range a.Events {
		p, _ := e.On(asked.Stream)
		if !asked.Has(p) {
			return bad("event %.80q, %.200s, was not requested", e.Name(), ordering.FormatSequenceID(e.Positions))
		}
		n := p.Place()
		if len(never.within(n, n)) > 0 {
			return bad("event %.80q has number %d, which never existed by the same answer", e.Name(), p.Number)
		}
		if other := numbers[n]; other != nil && !other.IsCopy(e) {
			return bad("events %.80q and %.80q both have number %d, and are different", other.Name(), e.Name(), p.Number)
		}
		numbers[n] = e
	}
	if e := a.stranger(); e != nil {
		return bad("event %.80q, %.200s, is before no other one of the answer", e.Name(), ordering.FormatSequenceID(e.Positions))
	}
	return nil
}

// stranger returns an event of Before that none behind it waits for, or nil.
func (a Answer) stranger() *ordering.Event {
	last := map[lockkeys.Key]uint64{} // place on each stream
	add := func(e *ordering.Event) {
		for _, p := range e.Positions {
			last[p.Stream] = max(last[p.Stream], p.Place())
		}
	}
	if len(a.Before) > 0 {
		for _, e := range a.Events {
			add(e)
		}
	}
	for _, e := range slices.Backward(a.Before) {
		if !slices.ContainsFunc(e.Positions, func(p ordering.Position) bool { return p.Place() < last[p.Stream] }) {
			return e
		}
		add(e)
	}
	return nil
}

// logChanges logs how the breaker has changed since the last call.
func (s *source) logChanges() {
	s.mu.Lock()
	changes := s.mu.changes
	s.mu.changes = nil
	s.mu.Unlock()
	for _, c := range changes {
		level := slog.LevelInfo
		if c.to == gobreaker.StateOpen {
			level = slog.LevelWarn
		}
		s.cfg.Logger.Log(context.Background(), level, "replay: breaker of a source changed",
			"source", s.Name, "from", c.from.String(), "to", c.to.String())
	}
}

// resting returns the error for a request that was not made.
func (s *source) resting() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Errorf("%w; the last one: %w", ErrResting, s.mu.failure)
}

// count counts a request.
func (s *source) count(a Answer, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.stats.Requests++
	s.mu.stats.Events += uint64(len(a.Events) + len(a.Before))
	if err != nil {
		s.mu.stats.Errors++
	}
}
