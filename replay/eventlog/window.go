package eventlog

import (
	"context"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/ordering"
)

// rest waits for news, at most for a poll, and while the feed goes on.
func (f *feed) rest(ctx context.Context, news <-chan struct{}) error {
	f.mu.Lock()
	changed := f.changedLocked()
	f.mu.Unlock()
	return f.await(ctx, news, changed)
}

// await waits for news or for a change, at most for a poll.
func (f *feed) await(ctx context.Context, news, changed <-chan struct{}) error {
	timer := time.NewTimer(f.subscription.config.Poll)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-news:
	case <-changed:
	case <-timer.C:
	}
	return nil
}

// room waits until fewer entries than most are open, or the feed does not go on. A sequencer
// that stops does not end those that are open, so it is looked at.
func (f *feed) room(ctx context.Context, most int) error {
	for {
		f.mu.Lock()
		if len(f.mu.open) < most || f.mu.state != feeding {
			f.mu.Unlock()
			return ctx.Err()
		}
		changed := f.changedLocked()
		f.mu.Unlock()
		if err := f.await(ctx, nil, changed); err != nil || f.subscription.sequencer.Err() != nil {
			return err
		}
	}
}

func (f *feed) offered(place uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.open = append(f.mu.open, place)
}

// done is told the outcome of an entry.
func (f *feed) done(e *ordering.Event, o ordering.Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	place := e.Positions[0].Place()
	if o.Result == ordering.Duplicate && o.Status == 0 {
		f.subscription.config.Logger.Warn("eventlog: whether the entry that was handled last is still in its place cannot be told any more: Retention is over",
			"subscription", f.subscription.config.Name, "entry", e.Positions[0].String())
	}
	switch o.Result {
	case ordering.Applied, ordering.Duplicate, ordering.DeadLettered:
		f.mu.ended[place] = true
		n := 0
		for n < len(f.mu.open) && f.mu.ended[f.mu.open[n]] {
			f.mu.low = f.mu.open[n]
			delete(f.mu.ended, f.mu.low)
			n++
		}
		if n == 0 {
			return
		}
		f.mu.open = f.mu.open[n:]
	case ordering.Held:
		if f.mu.state == feeding {
			f.mu.state = held
		}
	case ordering.Refused: // the place was done by another event
		f.mu.state, f.mu.err = failed, fmt.Errorf("%w: %w", ErrAhead, o.Err)
	default: // it ends
		return
	}
	f.changeLocked()
}

func (f *feed) setErr(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.state != failed {
		f.mu.err = err
	}
}

// goesOn reports whether the feed is still feeding, and returns why it has failed.
func (f *feed) goesOn() (bool, error) {
	if err := f.subscription.sequencer.Err(); err != nil {
		return false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.state == failed {
		return false, f.mu.err
	}
	return f.mu.state == feeding, nil
}

// reached returns the place up to which all is done.
func (f *feed) reached() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.low
}

// failure returns why the feed has failed, or nil.
func (f *feed) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.state == failed {
		return f.mu.err
	}
	return nil
}

func (f *feed) progress() Progress {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Progress{Done: ordering.PositionAt(f.stream, f.mu.low), Parked: f.mu.state == held, Err: f.mu.err}
}

// wait waits until all up to a place is done.
func (f *feed) wait(ctx context.Context, place uint64) error {
	for {
		f.mu.Lock()
		low, state, err := f.mu.low, f.mu.state, f.mu.err
		changed := f.changedLocked()
		f.mu.Unlock()
		switch {
		case state == failed: // also for what is done: the log may have another entry in its place
			return err
		case low >= place:
			return nil
		case state == closed:
			return fmt.Errorf("%w: %w", ErrClosed, f.subscription.sequencer.Err())
		case state == waiting || state == held:
			parked, err := f.parked(ctx)
			if err != nil {
				return fmt.Errorf("eventlog: wait: %w", err)
			}
			if parked != 0 && parked <= place {
				return fmt.Errorf("%w: partition %d, at %s", ErrParked, f.partition, ordering.PositionAt(f.stream, parked))
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// changedLocked returns a channel that is closed by the next change.
func (f *feed) changedLocked() <-chan struct{} {
	if f.mu.changed == nil {
		f.mu.changed = make(chan struct{})
	}
	return f.mu.changed
}

func (f *feed) changeLocked() {
	if f.mu.changed != nil {
		close(f.mu.changed)
		f.mu.changed = nil
	}
}
