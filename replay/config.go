package replay

import (
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/interlock-go/interlock/internal/safelog"
	"github.com/interlock-go/interlock/internal/settings"
)

// Config configures a [Replayer]. Sources is required; the zero value of every
// other field means its default.
type Config struct {
	// Sources are asked in this order, each for what those before it have not
	// answered: put first what answers quickly.
	Sources []NamedSource

	// Attempts is how often a number is asked for, called R in the paper.
	// Default: 5.
	Attempts int
	// Backoff is how long to wait between attempts. It starts anew after an
	// attempt that brought something.
	Backoff Backoff
	// Timeout bounds one request to a source, called T_a in the paper.
	// Default: 10 s.
	Timeout time.Duration
	// MaxWait is how long an attempt waits if no source may be asked, since
	// their breakers are open or they said when to come again. After that it
	// counts as an attempt, without a request. Default: 1 minute.
	MaxWait time.Duration
	// Breaker says when a source is left alone for a while.
	Breaker Breaker

	// MaxOpen is how many requests may be on their way at a time, for all
	// ranges and sources together; others wait in order. Default: 16.
	MaxOpen int
	// MaxEvents bounds the events, and the ranges of numbers that never
	// existed, of one answer. Default: 8192.
	MaxEvents int
	// MaxBytes bounds the events of one answer by [ordering.Event.Size]; all
	// answers at a time are MaxOpen times as much. Default: 64 MiB.
	MaxBytes int64

	// Logger is told of breakers that open and close and of bad answers.
	// Default: slog.Default().
	Logger *slog.Logger
}

// NamedSource is a source of a [Replayer].
type NamedSource struct {
	// Name is for errors, statistics and the log. Two sources cannot share it.
	Name   string
	Source Source
	// Copy says that the source is not the producer's own record but a cache
	// or a channel beside it, which may never have seen an event. When it says
	// that numbers never existed, that counts as no answer.
	Copy bool
}

// Backoff says how long to wait before each further attempt: Initial, and
// then Multiplier times as long each time, up to Max; spread at random by
// Jitter to either side.
type Backoff struct {
	Initial    time.Duration // Default: 100 ms.
	Max        time.Duration // Default: 10 s.
	Multiplier float64       // At least 1. Default: 2.
	// Jitter is a share of the delay, from 0 to 1; negative for none.
	// Default: 0.5.
	Jitter float64
}

// Breaker says when a source is left alone for a while.
type Breaker struct {
	// Failures is how many requests have to fail, one after the other, for
	// the breaker to open. Default: 5.
	Failures int
	// Open is how long it then stays open, before one request may try whether
	// the source is back. Default: 10 s.
	Open time.Duration
}

func (c Config) withDefaults() Config {
	settings.Default(&c.Attempts, 5)
	settings.Default(&c.Backoff.Initial, 100*time.Millisecond)
	settings.Default(&c.Backoff.Max, max(10*time.Second, c.Backoff.Initial))
	settings.Default(&c.Backoff.Multiplier, 2)
	settings.Default(&c.Backoff.Jitter, 0.5)
	c.Backoff.Jitter = max(c.Backoff.Jitter, 0)
	settings.Default(&c.Timeout, 10*time.Second)
	settings.Default(&c.MaxWait, time.Minute)
	settings.Default(&c.Breaker.Failures, 5)
	settings.Default(&c.Breaker.Open, 10*time.Second)
	settings.Default(&c.MaxOpen, 16)
	settings.Default(&c.MaxEvents, 8192)
	settings.Default(&c.MaxBytes, 64<<20)
	c.Logger = safelog.New(c.Logger)
	return c
}

// validate names every problem at once. It is called on a config with its
// defaults filled in.
func (c Config) validate() error {
	var p settings.Problems
	p.Add(len(c.Sources) == 0, "Sources is empty: give at least one")
	names := map[string]bool{}
	for i, s := range c.Sources {
		p.Add(s.Source == nil, "Sources[%d].Source is nil", i)
		p.Add(s.Name == "", "Sources[%d].Name is empty: errors and the log need it", i)
		p.Add(s.Name != "" && names[s.Name], "Sources[%d].Name is %q, like that of an earlier one", i, s.Name)
		names[s.Name] = true
	}
	p.Add(c.Attempts < 1, "Attempts is %d: it must be at least 1", c.Attempts)
	p.Add(c.Backoff.Initial < 0, "Backoff.Initial is %v: it must not be negative", c.Backoff.Initial)
	p.Add(c.Backoff.Max < c.Backoff.Initial, "Backoff.Max is %v: it must not be less than Initial, %v", c.Backoff.Max, c.Backoff.Initial)
	p.Add(!(c.Backoff.Multiplier >= 1), "Backoff.Multiplier is %v: it must be at least 1", c.Backoff.Multiplier)
	p.Add(!(c.Backoff.Jitter <= 1), "Backoff.Jitter is %v: it must be at most 1", c.Backoff.Jitter)
	p.Add(c.Timeout < 0, "Timeout is %v: it must not be negative", c.Timeout)
	p.Add(c.MaxWait < 0, "MaxWait is %v: it must not be negative", c.MaxWait)
	p.Add(c.Breaker.Failures < 1, "Breaker.Failures is %d: it must be at least 1", c.Breaker.Failures)
	p.Add(c.Breaker.Open < 0, "Breaker.Open is %v: it must not be negative", c.Breaker.Open)
	p.Add(c.MaxOpen < 1, "MaxOpen is %d: it must be at least 1", c.MaxOpen)
	p.Add(c.MaxEvents < 1, "MaxEvents is %d: it must be at least 1", c.MaxEvents)
	p.Add(c.MaxBytes < 1, "MaxBytes is %d: it must be at least 1", c.MaxBytes)
	return p.Err(ErrConfig)
}

func (b Backoff) start() *backoff.ExponentialBackOff {
	delays := &backoff.ExponentialBackOff{
		InitialInterval:     b.Initial,
		MaxInterval:         b.Max,
		Multiplier:          b.Multiplier,
		RandomizationFactor: b.Jitter,
	}
	delays.Reset()
	return delays
}
