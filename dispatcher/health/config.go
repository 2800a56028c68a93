package health

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/internal/safelog"
	"github.com/interlock-go/interlock/internal/settings"
)

// Check checks one of the things that a service needs.
type Check struct {
	// Name is part of responses.
	Name string
	// Check returns nil if all is well. It must return when ctx ends. It may be called by
	// several goroutines at once.
	Check func(ctx context.Context) error
}

// Source is something that works, with the name that responses give it: a dispatcher, a
// sequencer, an outbox, the coordinator of sagas.
type Source struct {
	Name   string
	Source view.Source
}

// Config configures a [Monitor]. The zero value of a field means its default.
type Config struct {
	// Checks are called one after the other, for each request about readiness.
	// Default: none.
	//
	// A service that also receives events by package replay/backup works while its
	// broker is down. It should not have a check of the broker, or it would lose its
	// backup channel when it is needed.
	Checks []Check
	// Sources are looked at once in Interval. Default: none.
	Sources []Source
	// Timeout bounds all checks of a request together, and a look at a source.
	// Default: 1 s.
	Timeout time.Duration
	// Interval is how often sources are looked at. Default: 1 s.
	Interval time.Duration
	// StalledAfter is how long nothing may begin or end, while something waits, before a
	// source counts as stalled. Default: 30 s.
	StalledAfter time.Duration
	// Reasons has responses say why. Reasons may have keys, names of messages and texts
	// of errors in them, so whoever can ask is told these. They are logged in any case.
	// Default: false; responses have names of checks and sources only.
	Reasons bool
	// Logger logs each change, as a warning unless it is one for the better. Default:
	// slog.Default().
	Logger *slog.Logger
}

// ErrConfig is wrapped by the error of [New] for an invalid configuration; the text names
// every problem.
var ErrConfig = errors.New("health: bad configuration")

func (c Config) withDefaults() Config {
	settings.Default(&c.Timeout, time.Second)
	settings.Default(&c.Interval, time.Second)
	settings.Default(&c.StalledAfter, 30*time.Second)
	c.Logger = safelog.New(c.Logger)
	return c
}

func (c Config) validate() error {
	var p settings.Problems
	p.Add(c.Timeout < 0, "Timeout is %v: it must not be negative", c.Timeout)
	p.Add(c.Interval < 0, "Interval is %v: it must not be negative", c.Interval)
	p.Add(c.StalledAfter < 0, "StalledAfter is %v: it must not be negative", c.StalledAfter)
	names := map[string]bool{}
	named := func(field string, i int, name string) {
		p.Add(name == "", "%s[%d]: Name is empty: set it", field, i)
		p.Add(name != "" && names[name], "%s[%d]: Name is %q as another one: give it a name of its own", field, i, name)
		names[name] = true
	}
	for i, check := range c.Checks {
		named("Checks", i, check.Name)
		p.Add(check.Check == nil, "Checks[%d]: Check is nil: give a function", i)
	}
	for i, s := range c.Sources {
		named("Sources", i, s.Name)
		p.Add(s.Source == nil, "Sources[%d]: Source is nil: set it", i)
	}
	return p.Err(ErrConfig)
}
