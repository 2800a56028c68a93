package backup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/outbox"
)

// Publisher sends events by a primary channel, and by a backup channel while
// the primary does not work. It implements [outbox.Publisher] and may be used
// from any number of goroutines at once. Close it if [PublisherConfig.Resend] is
// set; otherwise it has no goroutines of its own, and there is nothing to close.
//
// An event that goes to the backup may have been taken by the primary all the
// same, and come out of it much later. That is harmless where both channels
// feed one sequencer: it drops what it has by its numbers, and puts in order
// what comes late.
type Publisher struct {
	cfg      PublisherConfig
	breaker  *gobreaker.TwoStepCircuitBreaker[struct{}]
	resender *resender // nil if nothing is to be sent again

	// mu guards what is told of the channels. Under it nothing calls the
	// breaker or the logger.
	mu struct {
		sync.Mutex
		stats   Stats
		atSince uint64 // stats.Backup at stats.Since
		failure error  // the primary's last one
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

// Close ends sending again what the primary has confirmed, and returns when no
// goroutine is left of it; see [PublisherConfig.Resend]. Publish works as before.
func (p *Publisher) Close() {
	if p.resender != nil {
		p.resender.close()
	}
}

// errLeft is the outcome of an attempt whose caller left.
var errLeft = errors.New("backup: the caller left")

// saysNothing tells whether an attempt with this outcome says nothing about
// whether the primary works: the event was at fault, the caller left, or the
// loss of the broker, of which Alive will tell when it is over.
func saysNothing(err error) bool {
	return dispatcher.IsPermanent(err) || errors.Is(err, errLeft) || errors.Is(err, ErrLost)
}

// Publish sends an event by the primary and, if that does not work, by the
// backup. It returns nil once one of them has confirmed it. An error of the
// primary that is marked by [dispatcher.Permanent], or comes after ctx has
// ended, is returned as it is, and the backup is not asked; all others are a
// [*FailedError], which is marked too if the backup's is, unless the event is
// only too large for the backup, by [ErrTooLarge].
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

// unmark takes the mark of [dispatcher.Permanent] off the error of an event that
// is too large for the backup: the primary may take it when it works again.
func unmark(err error) error {
	if mark, ok := errors.AsType[*dispatcher.PermanentError](err); ok && errors.Is(err, ErrTooLarge) {
		return mark.Err
	}
	return err
}

// tryPrimary gives an event to the primary, unless that is to be left alone.
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
	outcome := errNoReturn
	defer func() { // also for an attempt that does not return
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

// attempt gives an event to the primary for as long as it may take, and as
// long as it has its broker.
func (p *Publisher) attempt(ctx context.Context, life context.Context, e *ordering.Event) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(life, func() { cancel(lost(life)) })()
	ctx, stop := context.WithTimeoutCause(ctx, p.cfg.Timeout, ErrSlow)
	defer stop()
	err := p.cfg.Primary.Publish(ctx, e)
	if cause := context.Cause(ctx); err != nil && (errors.Is(cause, ErrSlow) || errors.Is(cause, ErrLost)) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// lost says why the primary has no broker.
func lost(life context.Context) error { return fmt.Errorf("%w: %w", ErrLost, context.Cause(life)) }

// lookAlive makes the backup the active channel if the primary has no broker.
func (p *Publisher) lookAlive() {
	if life := p.cfg.Alive(); life.Err() != nil {
		p.switchTo(Backup, lost(life), p.switches())
	}
}

// look finds out from the outcome of an attempt which channel is in use now.
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

// resting is the error for an event that the primary was not asked to take.
func (p *Publisher) resting() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Errorf("%w; the last one: %w", ErrResting, p.mu.failure)
}
