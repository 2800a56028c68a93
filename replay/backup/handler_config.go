package backup

import (
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/interlock-go/interlock/internal/settings"
	"github.com/interlock-go/interlock/ordering"
)

// Sink takes events in, whatever their order and however often they come. An
// [*ordering.Sequencer] is one.
type Sink interface {
	// Offer takes an event. If it returns nil, it calls done once with what
	// became of the event, now or later, whether or not ctx has ended by then.
	// If its error is marked by [dispatcher.Permanent], or wraps an
	// [*ordering.EventError] or [dispatcher.ErrTooLarge], but not
	// [ordering.ErrStopped], the event can never be taken, and its sender is
	// told so. After any other error the event is sent again.
	Offer(ctx context.Context, e *ordering.Event, done ordering.Done) error
}

// HandlerConfig configures a [Handler]. Sink is required, and Keys or Tokens
// unless Public is set; the zero value of every other field means its default.
type HandlerConfig struct {
	// Sink takes the events, the same that has those of the broker.
	Sink Sink

	// Keys are those whose signatures are accepted.
	Keys []Key
	// Tokens are the bearer tokens that are accepted.
	Tokens []Token
	// Public lets everybody post who can connect, in place of Keys and Tokens.
	Public bool
	// MaxSkew is how far the time of a signature may be from the receiver's.
	// Default: 1 minute.
	MaxSkew time.Duration

	// MaxEvents bounds the events of a request. Default: 1000.
	MaxEvents int
	// MaxBytes bounds the body of a request. Default: 8 MiB.
	MaxBytes int64
	// MaxOpen is how many requests are served at a time, so that the bodies
	// in memory are no more than MaxOpen times MaxBytes, 2 GiB by default; a
	// body is read before its signature is known to be right. It should be more
	// than the senders have on their way, the windows of their relays
	// together: a request waits for the outcome of its events, and that may
	// depend on what another request brings. Default: 256.
	MaxOpen int
	// Rate is how many events a second are taken, all senders together, with
	// bursts of as many, or of MaxEvents if that is more. Default: 10,000;
	// math.Inf(1) for no bound.
	Rate float64
	// ReadTimeout bounds how long a body may take to come. Default: 10 s.
	ReadTimeout time.Duration
	// Wait is how long a request waits for the outcomes of its events. It
	// should be longer than the sequencer's GapTimeout, and shorter than the
	// senders' time-outs. Default: 5 s.
	Wait time.Duration

	// Logger is told of requests that were not authorised and of the sink's
	// errors, which senders are not told of. Default: slog.Default().
	Logger *slog.Logger
}

func (c HandlerConfig) withDefaults() HandlerConfig {
	settings.Default(&c.MaxSkew, time.Minute)
	settings.Default(&c.MaxEvents, 1000)
	settings.Default(&c.MaxBytes, 8<<20)
	settings.Default(&c.MaxOpen, 256)
	settings.Default(&c.Rate, 10_000)
	settings.Default(&c.ReadTimeout, 10*time.Second)
	settings.Default(&c.Wait, 5*time.Second)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c HandlerConfig) validate() error {
	var p settings.Problems
	p.Add(c.Sink == nil, "Sink is nil: give a sequencer")
	secured := len(c.Keys) > 0 || len(c.Tokens) > 0
	p.Add(!secured && !c.Public, "Keys and Tokens are empty: give at least one, or set Public")
	p.Add(secured && c.Public, "Public is set, and Keys or Tokens: keep one")
	ids := map[string]bool{}
	for i, k := range c.Keys {
		err := k.validate()
		p.Add(err != nil, "Keys[%d]: %w", i, err)
		p.Add(ids[k.ID], "Keys[%d]: ID %q is that of an earlier one", i, k.ID)
		ids[k.ID] = true
	}
	for i, t := range c.Tokens {
		err := t.validate()
		p.Add(err != nil, "Tokens[%d]: %w", i, err)
	}
	p.Add(c.MaxSkew < 0, "MaxSkew is %v: it must not be negative", c.MaxSkew)
	p.Add(c.MaxEvents < 0, "MaxEvents is %d: it must not be negative", c.MaxEvents)
	p.Add(c.MaxBytes < 0, "MaxBytes is %d: it must not be negative", c.MaxBytes)
	p.Add(c.MaxOpen < 0, "MaxOpen is %d: it must not be negative", c.MaxOpen)
	p.Add(c.Rate < 0 || math.IsNaN(c.Rate), "Rate is %v: it must be positive", c.Rate)
	p.Add(c.ReadTimeout < 0, "ReadTimeout is %v: it must not be negative", c.ReadTimeout)
	p.Add(c.Wait < 0, "Wait is %v: it must not be negative", c.Wait)
	return p.Err(ErrConfig)
}
