package backup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/contain"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/outbox"
)

// Publisher sends events through a primary channel, and through a backup channel
// while the primary does not work. It implements [outbox.Publisher] and is safe
// for concurrent use. Close it, or shut it down, if [PublisherConfig.Resend] is
// set; otherwise it has no goroutines of its own, and there is nothing to close.
//
// An event that goes to the backup may be in the primary all the same, and be
// delivered much later. That is harmless if both channels feed one sequencer: it
// drops duplicates by their numbers, and puts late events in order.
type Publisher struct {
	cfg      PublisherConfig
	breaker  *gobreaker.TwoStepCircuitBreaker[struct{}]
	resender *resender // nil if nothing is to be sent again

	// mu guards the statistics. Under it nothing calls the breaker or the logger.
	mu struct {
		sync.Mutex
		stats   Stats
		atSince uint64 // stats.Backup at stats.Since
		failure error  // the last one of the primary
	}
}

var _ outbox.Publisher = (*Publisher)(nil)

// NewPublisher returns a publisher that begins with the primary. The error
// wraps [ErrConfig].
func NewPublisher(cfg PublisherConfig) (*Publisher, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	p := &Publisher{cfg: cfg}
	p.mu.stats.Active, p.mu.stats.Since = Primary, time.Now()
	p.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        "primary",
		Timeout:     cfg.Probe,
		ReadyToTrip: func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= cfg.Failures },
		IsExcluded:  saysNothing,
	})
	if cfg.Resend > 0 {
		p.resender = newResender(p)
	}
	return p, nil
}

// Shutdown stops resending, see [PublisherConfig.Resend], and returns when its
// goroutine has ended, which a request that is under way delays until the backup
// gives it up. If ctx ends first, it returns the cause. Publish works as before.
func (p *Publisher) Shutdown(ctx context.Context) error {
	if p.resender == nil {
		return nil
	}
	return p.resender.shutdown(ctx)
}

// Close is [Publisher.Shutdown] without a deadline.
func (p *Publisher) Close() error { return p.Shutdown(context.Background()) }

// errLeft is the outcome of an attempt whose caller left.
var errLeft = errors.New("backup: the caller left")

// saysNothing reports whether the breaker ignores an attempt with this outcome:
// the event was at fault, the caller left, or the broker was lost, whose return
// Alive reports.
func saysNothing(err error) bool {
	return dispatcher.IsPermanent(err) || errors.Is(err, errLeft) || errors.Is(err, ErrLost)
}

// Publish sends an event through the primary and, if that fails, through the
// backup. It returns nil once one of them has confirmed it. An error of the
// primary that is marked by [dispatcher.Permanent], or comes after ctx has ended,
// is returned unchanged, and the backup is not tried. All other errors are a
// [*FailedError], which is permanent if the backup's error is, unless that is
// [ErrTooLarge].
func (p *Publisher) Publish(ctx context.Context, e *ordering.Event) error {
	err := p.tryPrimary(ctx, e)
	switch {
	case err == nil:
		p.count(&p.mu.stats.Primary)
		if p.resender != nil {
			p.resender.keep(e)
		}
		return nil
	case ctx.Err() != nil || dispatcher.IsPermanent(err):
		p.count(&p.mu.stats.Failed)
		return err
	}
	if second := p.cfg.Backup.Publish(ctx, e); second != nil {
		p.count(&p.mu.stats.Failed)
		return &FailedError{Primary: err, Backup: unmark(second)}
	}
	p.count(&p.mu.stats.Backup)
	return nil
}

// unmark removes the mark of [dispatcher.Permanent] from the error of an event
// that is too large for the backup: the primary may accept it when it works again.
func unmark(err error) error {
	if mark, ok := errors.AsType[*dispatcher.PermanentError](err); ok && errors.Is(err, ErrTooLarge) {
		return mark.Err
	}
	return err
}

// tryPrimary publishes an event through the primary, unless it has no broker or
// its breaker is open.
func (p *Publisher) tryPrimary(ctx context.Context, e *ordering.Event) error {
	began := p.switches()
	life := p.cfg.Alive()
	if life.Err() != nil {
		err := lost(life)
		p.switchTo(Backup, err, began)
		return err
	}
	done, err := p.breaker.Allow()
	if err != nil {
		err = p.resting()
		p.switchTo(Backup, err, began)
		return err
	}
	outcome := contain.ErrGoexit
	defer func() { // also for an attempt that ends the goroutine
		p.noteFailure(outcome)
		done(outcome)
		p.look(outcome, began)
	}()
	err = p.attempt(ctx, life, e)
	if outcome = err; err != nil && ctx.Err() != nil {
		outcome = errLeft
	}
	return err
}

// attempt publishes an event through the primary, within Timeout and while the
// primary has its broker. A panic counts as its error.
func (p *Publisher) attempt(ctx context.Context, life context.Context, e *ordering.Event) (err error) {
	defer contain.Recover(&err)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(life, func() { cancel(lost(life)) })()
	ctx, stop := context.WithTimeoutCause(ctx, p.cfg.Timeout, ErrSlow)
	defer stop()
	err = p.cfg.Primary.Publish(ctx, e)
	if cause := context.Cause(ctx); err != nil && (errors.Is(cause, ErrSlow) || errors.Is(cause, ErrLost)) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// lost returns the error for a primary without a broker.
func lost(life context.Context) error { return fmt.Errorf("%w: %w", ErrLost, context.Cause(life)) }

// lookAlive makes the backup the active channel if the primary has no broker.
func (p *Publisher) lookAlive() {
	err := contain.Apart(func() error {
		if life := p.cfg.Alive(); life.Err() != nil {
			p.switchTo(Backup, lost(life), p.switches())
		}
		return nil
	})
	if err != nil {
		p.cfg.Logger.Error("backup: Alive failed", "err", err)
	}
}

// look switches the channel according to the outcome of an attempt.
func (p *Publisher) look(outcome error, began uint64) {
	closed := p.breaker.State() == gobreaker.StateClosed
	switch {
	case outcome == nil && closed:
		p.switchTo(Primary, nil, began)
	case !closed || errors.Is(outcome, ErrLost):
		p.switchTo(Backup, outcome, began)
	}
}

func (p *Publisher) noteFailure(outcome error) {
	if outcome == nil || saysNothing(outcome) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.failure = outcome
}

// resting returns the error for an event for which the primary was not tried.
func (p *Publisher) resting() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Errorf("%w; the last one: %w", ErrResting, p.mu.failure)
}
