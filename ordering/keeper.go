package ordering

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/interlock-go/interlock/dispatcher"
)

// keeper is the goroutine that keeps what is parked and held in the store, and
// the work it is given. Parkings are written before the events that they hold,
// so whoever finds a held event finds why.
type keeper struct {
	wake    chan struct{}
	pending atomic.Int64 // events on their way into the store, or that it is asked about
	bytes   atomic.Int64 // of those

	// The sequencer's mutex guards these.
	mu struct {
		checks []*task
		dirty  []*parking
		holds  []*task
		ops    []op
		feeds  []*stream
		pumps  []*stream
		space  chan struct{} // closed when pending falls, if someone waits
		works  bool          // something of the above is being done
	}
}

// restsLocked tells whether there is nothing to do.
func (k *keeper) restsLocked() bool {
	return !k.mu.works && len(k.mu.checks)+len(k.mu.dirty)+len(k.mu.holds)+len(k.mu.ops)+len(k.mu.feeds)+len(k.mu.pumps) == 0
}

// op is something to be done by the keeper for someone who may wait for it.
type op struct {
	do    func(ctx context.Context) error
	reply chan<- error // may be nil
}

const (
	maxPending = 4096    // beyond it, or MaxEarlyBytes, offers wait for the store
	holdChunk  = 256     // events held in one transaction
	holdBytes  = 4 << 20 // likewise, unless it is one event
)

func (k *keeper) signal() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// opLocked gives the keeper something to do.
func (s *Sequencer) opLocked(o op) {
	s.keeper.mu.ops = append(s.keeper.mu.ops, o)
	s.keeper.signal()
}

// feedLocked has a stream fed from the store.
func (s *Sequencer) feedLocked(st *stream) {
	if !st.feeding {
		st.feeding = true
		s.keeper.mu.feeds = append(s.keeper.mu.feeds, st)
		s.keeper.signal()
	}
}

// reopenLocked has a parking resumed that misses nothing any more.
func (s *Sequencer) reopenLocked(p *parking) {
	if p == nil || p.over || !p.heals() {
		return
	}
	s.opLocked(op{do: func(ctx context.Context) error {
		return s.surely(ctx, "unpark", func() error {
			if !s.heals(p) {
				return nil
			}
			return s.unpark(ctx, p)
		})
	}})
}

func (s *Sequencer) heals(p *parking) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.live().heals()
}

// pumpLater has streams pumped when the dispatcher has room again.
func (s *Sequencer) pumpLater(streams []*stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keeper.mu.pumps = append(s.keeper.mu.pumps, streams...)
	s.keeper.signal()
}

// addLocked counts an event that is left to the keeper.
func (k *keeper) addLocked(t *task) {
	k.pending.Add(1)
	k.bytes.Add(t.event.Size())
}

// removeLocked lets those go on who wait for space.
func (k *keeper) removeLocked(tasks []*task) {
	for _, t := range tasks {
		k.bytes.Add(-t.event.Size())
	}
	k.pending.Add(int64(-len(tasks)))
	if k.mu.space != nil {
		close(k.mu.space)
		k.mu.space = nil
	}
}

func (s *Sequencer) isCrowded() bool {
	return s.keeper.pending.Load() > maxPending || s.keeper.bytes.Load() > s.cfg.MaxEarlyBytes
}

// waitForSpace waits while too many events are on their way into the store.
func (s *Sequencer) waitForSpace(ctx context.Context) error {
	for s.isCrowded() {
		if s.within(ctx) { // the keeper may wait for handlers
			return dispatcher.ErrNested
		}
		s.mu.Lock()
		if s.keeper.mu.space == nil {
			s.keeper.mu.space = make(chan struct{})
		}
		space := s.keeper.mu.space
		s.mu.Unlock()
		if !s.isCrowded() {
			return nil
		}
		select {
		case <-space:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.background.Done():
			return s.Err()
		}
	}
	return nil
}

// keep is the keeper's life.
func (s *Sequencer) keep() {
	for {
		select {
		case <-s.keeper.wake:
			s.keepOnce(s.background)
		case <-s.background.Done():
			return
		}
	}
}

// keepOnce does all that there is to do at one moment.
func (s *Sequencer) keepOnce(ctx context.Context) {
	s.mu.Lock()
	s.keeper.mu.works = true
	s.mu.Unlock()
	s.check(ctx)
	s.write(ctx)
	s.mu.Lock()
	ops, feeds, pumps := s.keeper.mu.ops, s.keeper.mu.feeds, s.keeper.mu.pumps
	s.keeper.mu.ops, s.keeper.mu.feeds, s.keeper.mu.pumps = nil, nil, nil
	s.mu.Unlock()
	for _, o := range ops {
		err := o.do(ctx)
		if o.reply != nil {
			o.reply <- err
		}
	}
	for _, st := range feeds {
		s.insist(ctx, "feed", func() error { return s.feed(ctx, st) })
	}
	if len(pumps) > 0 && s.takeTurn(ctx) == nil {
		s.pumpAside(pumps)
		s.passTurn()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keeper.mu.works = false
	s.drainedLocked()
}

// write puts into the store what is parked and held.
func (s *Sequencer) write(ctx context.Context) {
	s.mu.Lock()
	dirty, holds := s.keeper.mu.dirty, s.keeper.mu.holds
	s.keeper.mu.dirty, s.keeper.mu.holds = nil, nil
	s.mu.Unlock()
	for _, p := range dirty {
		s.writeParking(ctx, p)
	}
	s.hold(ctx, holds)
}

// writeParking puts a parking into the store as it is now.
func (s *Sequencer) writeParking(ctx context.Context, p *parking) {
	s.mu.Lock()
	p.dirty = false
	if p.over {
		s.mu.Unlock()
		return
	}
	p.Events = slices.DeleteFunc(p.Events, s.isDoneLocked) // or they would be held again
	public, fences, names := p.public(), s.fencesLocked(p), len(p.names)
	s.mu.Unlock()
	public = public.inOrder()
	s.logParking(ctx, public)
	err := s.surely(ctx, "park", func() error { return s.cfg.Store.Park(ctx, public, fences) })
	var a after
	defer s.do(&a)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.Is(err, ErrFenced):
		s.loseParkingLocked(&a, p)
	case err == nil && !p.over:
		s.forgetNamesLocked(p, names)
	}
}

// forgetNamesLocked forgets the first of a parking's names but its own, under
// which the store has nothing any more.
func (s *Sequencer) forgetNamesLocked(p *parking, n int) {
	for _, id := range p.names[:n] {
		if id != p.ID {
			delete(s.mu.parkings, id)
		}
	}
	p.names = append([]string{p.ID}, p.names[n:]...)
}

// logParking tells an operator what is parked. What is still being asked for
// needs nobody.
func (s *Sequencer) logParking(ctx context.Context, p Parking) {
	level := slog.LevelError
	if p.Reason == Waiting {
		level = slog.LevelInfo
	}
	s.cfg.Logger.Log(ctx, level, "streams parked", "reason", p.Reason.String(), "streams", len(p.Streams),
		"first", p.Streams[0].String(), "parking", p.ID, "err", p.Error)
}

// insist does something with the store until it succeeds, or ctx or the options
// end it.
func (s *Sequencer) insist(ctx context.Context, what string, do func() error, options ...backoff.RetryOption) (done bool) {
	delays := backoff.NewExponentialBackOff()
	delays.MaxInterval = 5 * time.Second
	options = append(options, backoff.WithBackOff(delays), backoff.WithMaxElapsedTime(0),
		backoff.WithNotify(func(err error, wait time.Duration) {
			s.cfg.Logger.Error("store failed, trying again", "op", what, "wait", wait, "err", err)
		}))
	_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, do() }, options...)
	if err != nil && ctx.Err() == nil {
		s.cfg.Logger.Error("store failed", "op", what, "err", err)
	}
	return err == nil
}

// surely does something with the store until it is known what came of it. The
// error wraps ErrFenced or a [*ConflictError], or tells why the sequencer ended
// first.
func (s *Sequencer) surely(ctx context.Context, what string, do func() error) (err error) {
	known := s.insist(ctx, what, func() error {
		if err = do(); errors.Is(err, ErrFenced) || errors.As(err, new(*ConflictError)) {
			return nil
		}
		return err
	})
	if !known {
		return s.endError()
	}
	return err
}

// hold puts events into the store and then tells their sources. Those of a
// stream that has another holder by now are given back.
func (s *Sequencer) hold(ctx context.Context, tasks []*task) {
	for len(tasks) > 0 {
		chunk := nextChunk(tasks)
		tasks = tasks[len(chunk):]
		err := s.storeHeld(ctx, chunk)
		var other *ConflictError
		if (errors.Is(err, ErrFenced) || errors.As(err, &other)) && len(chunk) > 1 { // one by one, to find out which
			for i := range chunk {
				s.hold(ctx, chunk[i:i+1])
			}
			continue
		}
		var a after
		s.mu.Lock()
		s.keeper.removeLocked(chunk)
		for _, t := range chunk {
			switch {
			case errors.Is(err, ErrFenced):
				s.loseLocked(&a, t.streams()...)
				s.unheldLocked(t, err, &a)
			case other != nil:
				s.leaveHoldingLocked(t)
				s.refuseLocked(t, other, &a)
			case err != nil:
				s.unheldLocked(t, ErrClosed, &a)
			case t.isLost():
				s.unheldLocked(t, ErrFenced, &a)
			default:
				s.heldLocked(t, &a)
			}
		}
		s.mu.Unlock()
		s.do(&a)
	}
}

// nextChunk is what is held in one transaction.
func nextChunk(tasks []*task) []*task {
	size, n := int64(0), 0
	for n < len(tasks) && n < holdChunk {
		if size += tasks[n].event.Size(); size > holdBytes && n > 0 {
			break
		}
		n++
	}
	return tasks[:n]
}

// storeHeld puts events into the store, but for those of lost streams. The
// error is that of surely.
func (s *Sequencer) storeHeld(ctx context.Context, tasks []*task) error {
	var events []*Event
	fences := Fences{}
	for _, t := range tasks {
		if t.isLost() {
			continue
		}
		events = append(events, t.event)
		for _, slot := range t.slots {
			fences[slot.stream.key] = slot.stream.fence
		}
	}
	return s.surely(ctx, "hold", func() error { return s.cfg.Store.Hold(ctx, events, fences) })
}
