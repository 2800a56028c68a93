package eventlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// feed offers the entries of a partition to the subscription's sequencer, in their
// order, from what the sequencer's store has as done on. It is in one of these states:
//
//	state     goes on to
//	starting  waiting, when it knows where to begin; failed, if that is ahead of the log
//	waiting   feeding, when all that was offered is done; held, if the stream is parked
//	held      waiting, when the stream is not parked any more
//	feeding   held, when the sequencer has held an entry, since the stream is parked;
//	          failed, when it has refused one; waiting, when a database has failed, to
//	          begin as from starting
//	failed    -
//	closed    -, from any state, when the subscription or its sequencer ends
//
// Invariant: places are offered without holes and in order. open has those that were
// offered and are above low, in their order; ended has those of open that have ended.
// Every place up to low is done in the store.
type feed struct {
	subscription *Subscription
	partition    int
	stream       lockkeys.Key
	unsure       bool // a database has failed since start: the log may be another one; only for run

	mu struct {
		sync.Mutex
		state   feedState
		low     uint64
		open    []uint64
		ended   map[uint64]bool
		err     error         // why it has failed, or the latest error of the database
		changed chan struct{} // closed when any of this changes; nil if nobody waits for it
	}
}

// feedState is the state of a [feed].
type feedState uint8

const (
	starting feedState = iota
	waiting
	held
	feeding
	failed
	closed
)

func (f *feed) run(ctx context.Context) {
	after, err := f.start(ctx)
	for err == nil {
		err = f.awaitOpen(ctx, after)
		switch {
		case err != nil:
		case f.unsure:
			after, err = f.start(ctx)
		default:
			after, err = f.follow(ctx, after)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.changeLocked()
	if ctx.Err() != nil || f.subscription.sequencer.Err() != nil {
		f.mu.state = closed
		return
	}
	f.mu.state, f.mu.err = failed, err
	f.subscription.config.Logger.ErrorContext(ctx, "eventlog: the subscription has stopped",
		"subscription", f.subscription.config.Name, "partition", f.partition, "err", err)
}

// start returns the place to begin behind: that before the last entry that is done. So
// this one is offered once more, before all others, and if the log has another entry in
// its place by now, the sequencer refuses it.
func (f *feed) start(ctx context.Context) (uint64, error) {
	var low uint64
	var head ordering.Position
	err := f.try(ctx, func() (err error) {
		low, err = f.reader().Reached(ctx, f.stream)
		if err == nil {
			head, err = f.subscription.log.Head(ctx, f.partition)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	f.unsure = false
	done := ordering.PositionAt(f.stream, low)
	begun := done.Epoch < f.subscription.log.config.Epoch // what was lost before does not matter
	if low > head.Place() && !begun {
		return 0, fmt.Errorf("%w: it has done %s, the log ends with %s", ErrAhead, done, head)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.low = low
	f.mu.state = waiting
	f.changeLocked()
	if begun || low == 0 {
		return low, nil
	}
	return low - 1, nil
}

// awaitOpen waits until the stream is not parked, and all that was offered, up to a
// place, is done.
func (f *feed) awaitOpen(ctx context.Context, offered uint64) error {
	for {
		var parked, low uint64
		err := f.try(ctx, func() (err error) {
			if parked, err = f.parked(ctx); err == nil {
				low, err = f.reader().Reached(ctx, f.stream)
			}
			return err
		})
		if err != nil {
			return err
		}
		f.mu.Lock()
		if f.mu.state == failed {
			err := f.mu.err
			f.mu.Unlock()
			return err
		}
		if parked == 0 && low >= offered {
			f.mu.low, f.mu.open, f.mu.ended = low, nil, map[uint64]bool{}
			f.mu.state = feeding
			f.changeLocked()
			f.mu.Unlock()
			return nil
		}
		next := waiting
		if parked != 0 {
			next = held
		}
		if f.mu.state != next {
			f.mu.state = next
			f.changeLocked()
		}
		f.mu.Unlock()
		if err := f.subscription.sequencer.Err(); err != nil {
			return err
		}
		if err := sleep(ctx, f.subscription.config.Poll); err != nil {
			return err
		}
	}
}

func (f *feed) reader() ordering.Reader {
	return f.subscription.config.Store.Reader(f.subscription.config.consumer())
}

// parked returns the place from which on the partition's stream is parked; 0 if it is
// not.
func (f *feed) parked(ctx context.Context) (from uint64, err error) {
	list, err := f.reader().Parked(ctx)
	for _, p := range list {
		for _, s := range p.Streams {
			if s.Stream == f.stream {
				return s.Position().Place(), nil
			}
		}
	}
	return 0, err
}

// follow offers the entries behind a place, and those that come, until one is held. It
// returns the last place offered.
func (f *feed) follow(ctx context.Context, after uint64) (uint64, error) {
	log := f.subscription.log
	most := f.subscription.config.Window
	if after < f.reached() { // the next one tells whether this is the log that it was
		most = 1
	}
	for {
		news := log.box.Notices()
		var rows []row
		err := f.try(ctx, func() (err error) {
			rows, err = log.pageAfter(ctx, f.partition, after)
			return err
		})
		if err != nil || f.unsure {
			return after, err
		}
		for _, r := range rows {
			if err := f.room(ctx, most); err != nil {
				return after, err
			}
			if on, err := f.goesOn(); !on {
				return after, err
			}
			place := r.at.Place()
			f.offered(place)
			if err := f.subscription.sequencer.Offer(ctx, event(r), f.done); err != nil {
				return after, err
			}
			if after = place; most == 1 {
				if err := f.room(ctx, most); err != nil {
					return after, err
				}
				most = f.subscription.config.Window
			}
		}
		if len(rows) > 0 {
			continue
		}
		if err := f.rest(ctx, news); err != nil {
			return after, err
		}
		if on, err := f.goesOn(); !on {
			return after, err
		}
	}
}

// event is a row as it is offered: numbered by its place, with the event's body as its
// payload, so that what the store holds of it is complete.
func event(r row) *ordering.Event {
	return &ordering.Event{ID: r.name, Type: r.kind, Positions: []ordering.Position{r.at}, Payload: r.body, Time: r.time}
}

// try calls a function that uses a database until it succeeds or ctx ends.
func (f *feed) try(ctx context.Context, call func() error) error {
	config := f.subscription.config
	back := dispatcher.Backoff{}.WithDefaults(config.Poll, 30*time.Second)
	for attempt := 1; ; attempt++ {
		err := call()
		if err == nil && attempt > 1 {
			config.Logger.InfoContext(ctx, "eventlog: the subscription goes on", "subscription", config.Name, "partition", f.partition)
		}
		if err == nil || ctx.Err() != nil || errors.Is(err, ordering.ErrStoreClosed) {
			if err == nil && attempt > 1 {
				f.setErr(nil)
			}
			return err
		}
		f.setErr(err)
		f.unsure = true
		wait := back.Wait(attempt)
		config.Logger.ErrorContext(ctx, "eventlog: the subscription's database failed",
			"subscription", config.Name, "partition", f.partition, "err", err, "again_in", wait)
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
