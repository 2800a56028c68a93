package replay

import (
	"log/slog"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/safelog"
	"github.com/interlock-go/interlock/internal/settings"
)

// Config configures a [Replayer]. Sources is required; the zero value of every
// other field means its default.
type Config struct {
	// Sources are asked in this order, each for the numbers that those before
	// it have not answered: put fast ones first.
	Sources []NamedSource

	// Attempts is how often a number is asked for, called R in the paper.
	// Default: 5.
	Attempts int
	// Backoff is the wait between attempts. It starts again at Initial after an
	// attempt that brought something. Default: from 100 ms to 10 s.
	Backoff dispatcher.Backoff
	// Timeout bounds one request to a source, called T_a in the paper.
	// Default: 10 s.
	Timeout time.Duration
	// MaxWait is how long an attempt waits if no source may be asked, because
	// their breakers are open, or since they are busy and want to be asked later:
	// see [RetryAfter]. After that it counts as an attempt, without an answer.
	// Default: 1 minute.
	MaxWait time.Duration
	// Breaker says when a source is left alone for a while.
	Breaker Breaker

	// MaxOpen bounds the requests in flight, for all ranges and sources
	// together; others wait in order. Default: 16.
	MaxOpen int
	// MaxEvents bounds the events, and the ranges of numbers that never
	// existed, of one answer. Default: 8192.
	MaxEvents int
	// MaxBytes bounds the events of one answer by [ordering.Event.Size]; all
	// answers in memory take at most MaxOpen times as much. Default: 64 MiB.
	MaxBytes int64

	// Logger receives the opening and closing of breakers, and bad answers.
	// Default: slog.Default().
	Logger *slog.Logger
}

// NamedSource is a source of a [Replayer].
type NamedSource struct {
	// Name is for errors, statistics and the log. Two sources cannot share it.
	Name   string
	Source Source
	// Copy marks a source that is not the producer's own record but a cache or
	// another channel, which may never have seen an event. Its answer that
	// numbers never existed counts as no answer.
	Copy bool
}

// Breaker says when a source is left alone for a while.
type Breaker struct {
	// Failures is the number of consecutive failed requests that opens the
	// breaker. Default: 5.
	Failures int
	// Open is how long it stays open before one request may test whether the
	// source is back. Default: 10 s.
	Open time.Duration
}

func (c Config) withDefaults() Config {
	settings.Default(&c.Attempts, 5)
	c.Backoff = c.Backoff.WithDefaults(100*time.Millisecond, 10*time.Second)
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
	backoff := c.Backoff.Validate()
	p.Add(backoff != nil, "%w", backoff)
	p.Add(c.Timeout < 0, "Timeout is %v: it must not be negative", c.Timeout)
	p.Add(c.MaxWait < 0, "MaxWait is %v: it must not be negative", c.MaxWait)
	p.Add(c.Breaker.Failures < 1, "Breaker.Failures is %d: it must be at least 1", c.Breaker.Failures)
	p.Add(c.Breaker.Open < 0, "Breaker.Open is %v: it must not be negative", c.Breaker.Open)
	p.Add(c.MaxOpen < 1, "MaxOpen is %d: it must be at least 1", c.MaxOpen)
	p.Add(c.MaxEvents < 1, "MaxEvents is %d: it must be at least 1", c.MaxEvents)
	p.Add(c.MaxBytes < 1, "MaxBytes is %d: it must be at least 1", c.MaxBytes)
	return p.Err(ErrConfig)
}
