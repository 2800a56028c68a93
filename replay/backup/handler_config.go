package backup

import (
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/interlock-go/interlock/internal/httpauth"
	"github.com/interlock-go/interlock/internal/safelog"
	"github.com/interlock-go/interlock/internal/settings"
	"github.com/interlock-go/interlock/ordering"
)

// Sink accepts events in any order, and repeatedly. An [*ordering.Sequencer] is
// one.
type Sink interface {
	// Offer accepts an event. If it returns nil, it calls done once with the
	// event's outcome, now or later, whether or not ctx has ended by then. If its
	// error is marked by [dispatcher.Permanent], or wraps an
	// [*ordering.EventError] or [dispatcher.ErrTooLarge], but not
	// [ordering.ErrStopped], the event can never be accepted, and its sender is
	// told so. After any other error the event is sent again.
	Offer(ctx context.Context, e *ordering.Event, done ordering.Done) error
}

// HandlerConfig configures a [Handler]. Sink is required, and Keys or Tokens
// unless Public is set; the zero value of every other field means its default.
type HandlerConfig struct {
	// Sink gets the events: the sequencer that also gets the broker's.
	Sink Sink

	// Keys are the accepted keys for signatures.
	Keys []Key
	// Tokens are the accepted bearer tokens.
	Tokens []Token
	// Public accepts requests of everybody, in place of Keys and Tokens.
	Public bool
	// MaxSkew bounds the difference between the time of a signature and the
	// receiver's. Default: 1 minute.
	MaxSkew time.Duration

	// MaxEvents bounds the events of a request. Default: 1000.
	MaxEvents int
	// MaxBytes bounds the body of a request. Its events may take twice as much,
	// plus 512 bytes each, by [ordering.Event.Size]. Default: 8 MiB.
	MaxBytes int64
	// MaxOpen bounds the requests served at a time: those of authorised senders,
	// while they wait for the outcomes of their events. It should be larger than
	// the number of concurrent requests of all senders, the sum of the windows of
	// their relays: the outcome of one request may depend on the events of
	// another. Default: 256.
	MaxOpen int
	// MaxOpenBytes bounds the bodies of those requests together, or their
	// events by [ordering.Event.Size] if that is more. A single request may be
	// larger. Default: 256 MiB, or two times MaxBytes if that is more.
	MaxOpenBytes int64
	// MaxReadBytes bounds the bodies being read, whose senders are still
	// unknown. Beyond it, the one that has been read for the longest time is
	// given up. At least MaxBytes. Default: 256 MiB, or two times MaxBytes if
	// that is more.
	MaxReadBytes int64
	// Share is the part of MaxOpen, MaxOpenBytes and Rate that requests with one
	// key or token may take, so that one sender leaves some for others, from 0 to
	// 1. Default: 0.75, or 1 if there is only one key or token.
	Share float64
	// Rate bounds the events per second, of all senders together, with bursts of
	// as many, or of MaxEvents if that is more. Default: 10,000; math.Inf(1) for
	// no bound.
	Rate float64
	// ReadTimeout bounds reading a body. Default: 10 s.
	ReadTimeout time.Duration
	// MinRate is the smallest rate of a body, in bytes per second on average,
	// once two seconds have passed. Default: 16 KiB.
	MinRate int64
	// Wait is how long a request waits for the outcomes of its events. It
	// should be longer than the sequencer's GapTimeout, and shorter than the
	// senders' timeouts. Default: 5 s.
	Wait time.Duration
	// WriteTimeout bounds the time for a sender to read its answer, which counts
	// as being served. Default: 10 s.
	WriteTimeout time.Duration

	// Logger logs unauthorised requests and the sink's errors, which senders do
	// not see: of each kind one in ten seconds, with their number. Default:
	// slog.Default().
	Logger *slog.Logger
}

func (c HandlerConfig) withDefaults() HandlerConfig {
	settings.Default(&c.MaxSkew, time.Minute)
	settings.Default(&c.MaxEvents, 1000)
	settings.Default(&c.MaxBytes, 8<<20)
	settings.Default(&c.MaxOpen, 256)
	settings.Default(&c.MaxOpenBytes, max(256<<20, 2*c.MaxBytes))
	settings.Default(&c.MaxReadBytes, max(256<<20, 2*c.MaxBytes))
	settings.Default(&c.Share, httpauth.DefaultShare(len(c.Keys)+len(c.Tokens)))
	settings.Default(&c.Rate, 10_000)
	settings.Default(&c.ReadTimeout, 10*time.Second)
	settings.Default(&c.MinRate, 16<<10)
	settings.Default(&c.Wait, 5*time.Second)
	settings.Default(&c.WriteTimeout, 10*time.Second)
	c.Logger = safelog.New(c.Logger)
	return c
}

// maxInMemory bounds the events of a request in memory: a few bytes of text can
// be a large value.
func (c HandlerConfig) maxInMemory() int64 { return 2*c.MaxBytes + 512*int64(c.MaxEvents) }

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
	p.Add(c.MaxOpenBytes < 0, "MaxOpenBytes is %d: it must not be negative", c.MaxOpenBytes)
	p.Add(c.MaxReadBytes < c.MaxBytes, "MaxReadBytes is %d: it must not be less than MaxBytes, %d", c.MaxReadBytes, c.MaxBytes)
	p.Add(!(c.Share >= 0 && c.Share <= 1), "Share is %v: it must be from 0 to 1", c.Share)
	p.Add(c.Rate < 0 || math.IsNaN(c.Rate), "Rate is %v: it must be positive", c.Rate)
	p.Add(c.ReadTimeout < 0, "ReadTimeout is %v: it must not be negative", c.ReadTimeout)
	p.Add(c.MinRate < 0, "MinRate is %d: it must not be negative", c.MinRate)
	p.Add(c.Wait < 0, "Wait is %v: it must not be negative", c.Wait)
	p.Add(c.WriteTimeout < 0, "WriteTimeout is %v: it must not be negative", c.WriteTimeout)
	return p.Err(ErrConfig)
}
