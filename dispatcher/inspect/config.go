package inspect

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/internal/contain"
	"github.com/interlock-go/interlock/internal/safelog"
	"github.com/interlock-go/interlock/internal/settings"
)

// ErrConfig is wrapped by the error of [New] for a config that it refuses.
var ErrConfig = errors.New("inspect: config")

// Named is a source with the name that the page gives it.
type Named struct {
	Name   string // not "" and not twice
	Source view.Source
	// Timeline, if set, is what a [Recorder] has seen of the source.
	Timeline Timeline
}

// Config configures an [Inspector]; the zero value of a field means its default.
type Config struct {
	// Sources are what is shown, in this order. Required.
	Sources []Named
	// Authorize decides whether a request may act, and says who it is from: a name that
	// logs and databases keep. Its error refuses the action and is shown; without a name the
	// action is refused too. It is called
	// from several goroutines at once. Default: nil, nobody may act.
	Authorize func(r *http.Request, source string, a view.Action) (who string, err error)
	// Show returns what is shown of a parked message or event itself, such as its payload: for
	// a source that is a dispatcher the message, and for a sequencer the *ordering.Event. This
	// is where to leave out what viewers must not see. JSON is indented, what is no text is
	// said to be binary, and of more than 8 KiB the rest is left out. If it panics, that is
	// said. Default: nil, nothing is shown.
	Show func(source string, message any) string
	// Redact returns what is shown of a text that may have something in it that viewers
	// must not see: the name of a message, or the text of an error. If it panics, that is said,
	// and not the text. Default: the text.
	Redact func(text string) string
	// Limit bounds the messages that wait and the rows of a table, in one view; further
	// ones are found by searching. Default: 100.
	Limit int
	// StalledAfter is how long nothing may begin or end, while something waits, before a
	// source counts as stalled. Default: 30 s.
	StalledAfter time.Duration
	// MaxViewers bounds the pages that are updated while they are looked at; more have to
	// be reloaded by hand. Default: 64.
	MaxViewers int
	// Logger logs actions. Default: slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	settings.Default(&c.Limit, view.DefaultLimit)
	settings.Default(&c.StalledAfter, 30*time.Second)
	settings.Default(&c.MaxViewers, 64)
	if redact := c.Redact; redact != nil {
		c.Redact = func(text string) string { return said("Redact", func() string { return redact(text) }) }
	} else {
		c.Redact = func(text string) string { return text }
	}
	if show := c.Show; show != nil {
		c.Show = func(source string, message any) string {
			return said("Show", func() string { return show(source, message) })
		}
	}
	c.Logger = safelog.New(c.Logger)
	return c
}

// said returns the result of a function of the service, or that the field with it has failed:
// a source is looked at on goroutines where a panic would end the service.
func said(field string, f func() string) (text string) {
	if contain.Apart(func() error { text = f(); return nil }) != nil {
		return "(Config." + field + " failed)"
	}
	return text
}

func (c Config) validate() error {
	var p settings.Problems
	p.Add(len(c.Sources) == 0, "Sources is empty: name a dispatcher")
	names := map[string]bool{}
	for i, s := range c.Sources {
		p.Add(s.Name == "", "Sources[%d].Name is empty: give it a name", i)
		p.Add(names[s.Name], "Sources[%d].Name is %q as another one: give it a name of its own", i, s.Name)
		p.Add(s.Source == nil, "Sources[%d].Source is nil: set it", i)
		names[s.Name] = true
	}
	p.Add(c.Limit < 1, "Limit is %d: it must be at least 1", c.Limit)
	p.Add(c.StalledAfter < 0, "StalledAfter is %v: it must not be negative", c.StalledAfter)
	p.Add(c.MaxViewers < 0, "MaxViewers is %d: it must not be negative", c.MaxViewers)
	return p.Err(ErrConfig)
}
