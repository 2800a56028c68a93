package ordering

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// keeper is the goroutine that keeps what is parked and held in the store, and
// the work it is given. Parkings are written before the events that they hold,
// so whoever finds a held event finds why.
type keeper struct {
	wake    chan struct{}
	pending atomic.Int64 // events on their way into the store

	// The sequencer's mutex guards these.
	mu struct {
		dirty []*parking
		over  []string // IDs of parkings that became part of others
		holds []*task
		ops   []op
		feeds []*stream
		pumps []*stream
		space chan struct{} // closed when pending falls, if someone waits
	}
}

// op is something to be done by the keeper for someone who may wait for it.
type op struct {
	do    func(ctx context.Context) error
	reply chan<- error // may be nil
}

const (
	maxPendingHolds = 4096 // beyond it offers wait for the store
	holdChunk       = 256  // events held in one transaction
	feedPage        = 64   // events of a stream fed at a time
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
	if p != nil && !p.over && p.heals() {
		s.opLocked(op{do: func(ctx context.Context) error {
			s.insist(ctx, "unpark", func() error { return s.unpark(ctx, p) })
			return nil
		}})
	}
}

// pumpLater has streams pumped when the dispatcher has room again.
func (s *Sequencer) pumpLater(streams []*stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keeper.mu.pumps = append(s.keeper.mu.pumps, streams...)
	s.keeper.signal()
}

// waitForSpace waits while too many events are on their way into the store.
func (s *Sequencer) waitForSpace(ctx context.Context) error {
	for s.keeper.pending.Load() > maxPendingHolds {
		s.mu.Lock()
		if s.keeper.mu.space == nil {
			s.keeper.mu.space = make(chan struct{})
		}
		space := s.keeper.mu.space
		s.mu.Unlock()
		if s.keeper.pending.Load() <= maxPendingHolds {
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
		s.pump(ctx, pumps)
		s.passTurn()
	}
}

// write puts into the store what is parked and held.
func (s *Sequencer) write(ctx context.Context) {
	s.mu.Lock()
	dirty, over, holds := s.keeper.mu.dirty, s.keeper.mu.over, s.keeper.mu.holds
	s.keeper.mu.dirty, s.keeper.mu.over, s.keeper.mu.holds = nil, nil, nil
	var parkings []Parking
	for _, p := range dirty {
		if p.dirty = false; !p.over {
			parkings = append(parkings, p.public())
		}
	}
	s.mu.Unlock()
	for _, p := range parkings {
		s.cfg.Logger.Error("streams parked", "reason", p.Reason.String(), "streams", len(p.Streams),
			"first", p.Streams[0].String(), "parking", p.ID, "err", p.Error)
		s.insist(ctx, "park", func() error { return s.cfg.Store.Park(ctx, p) })
	}
	for _, id := range over {
		if s.insist(ctx, "unpark", func() error { return s.cfg.Store.Unpark(ctx, id) }) {
			s.mu.Lock()
			delete(s.mu.parkings, id)
			s.mu.Unlock()
		}
	}
	s.hold(ctx, holds)
}

// insist does something with the store until it succeeds.
func (s *Sequencer) insist(ctx context.Context, what string, do func() error) (done bool) {
	_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, do() },
		backoff.WithMaxElapsedTime(0),
		backoff.WithNotify(func(err error, wait time.Duration) {
			if ctx.Err() == nil {
				s.cfg.Logger.Error("store failed, trying again", "op", what, "wait", wait, "err", err)
			}
		}))
	return err == nil
}

// hold puts events into the store and then tells their sources.
func (s *Sequencer) hold(ctx context.Context, tasks []*task) {
	for len(tasks) > 0 {
		chunk := tasks[:min(len(tasks), holdChunk)]
		tasks = tasks[len(chunk):]
		events := make([]*Event, len(chunk))
		for i, t := range chunk {
			events[i] = t.event
		}
		stored := s.insist(ctx, "hold", func() error { return s.cfg.Store.Hold(ctx, events) })
		var a after
		s.mu.Lock()
		for _, t := range chunk {
			if !stored {
				s.endLocked(t, Outcome{Unfinished, ErrClosed}, &a)
				continue
			}
			s.heldLocked(t, &a)
		}
		s.keeper.pending.Add(int64(-len(chunk)))
		if s.keeper.mu.space != nil {
			close(s.keeper.mu.space)
			s.keeper.mu.space = nil
		}
		s.mu.Unlock()
		s.do(&a)
	}
}

// unpark resumes a parking: its streams are fed what is held of them.
func (s *Sequencer) unpark(ctx context.Context, p *parking) error {
	if err := s.takeTurn(ctx); err != nil {
		return err
	}
	defer s.passTurn()
	s.mu.Lock()
	over := p.over
	s.mu.Unlock()
	if over {
		return nil
	}
	if err := s.cfg.Store.Unpark(ctx, p.ID); err != nil {
		return err
	}
	s.mu.Lock()
	p.over = true
	delete(s.mu.parkings, p.ID)
	var unknown Event // with the streams that are not in memory
	for key, n := range p.streams {
		if s.mu.streams[key] == nil {
			unknown.Positions = append(unknown.Positions, Position{Stream: key, Number: n})
		}
	}
	var a after
	for key := range p.streams {
		if st := s.mu.streams[key]; st != nil && st.parking == p {
			st.parking, st.missing = nil, 0
			s.mu.idle.remove(st)
			s.feedLocked(st)
			a.notices = append(a.notices, Notice{Kind: StreamResumed, Time: time.Now(), Stream: key})
		}
	}
	s.mu.Unlock()
	s.do(&a)
	return s.load(ctx, s.unknown(&unknown))
}

// feed brings back held events of a stream, in order, and opens the stream
// once there are no more.
func (s *Sequencer) feed(ctx context.Context, st *stream) error {
	if err := s.takeTurn(ctx); err != nil {
		return nil // it is over
	}
	defer s.passTurn()
	// What is on its way into the store is part of what is held. With the turn
	// taken nothing new comes.
	s.write(ctx)
	s.mu.Lock()
	from := st.heldFrom.Load()
	if st.gone || st.parking != nil || st.fed > 0 || from == notHeld {
		st.feeding = false
		s.restLocked(st)
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	page, err := s.cfg.Store.Held(ctx, st.key, from, feedPage)
	if err != nil {
		return err
	}
	events := make([]*Event, len(page))
	for i, h := range page {
		events[i] = h.Event
	}
	if err := s.load(ctx, s.unknown(events...)); err != nil {
		return err
	}
	var a after
	s.mu.Lock()
	st.feeding = false
	streams := []*stream{st}
	all := len(page) < feedPage
	for _, h := range page {
		if st.parking != nil || st.holding > 0 { // since: a worker found that it is not its turn
			break
		}
		n, _ := h.On(st.key)
		st.heldFrom.Store(n + 1)
		if done, running := st.isDone(n); done || running != nil && running != undone || st.early[n] != nil {
			continue
		}
		t := s.newTask(h.Event, nil)
		t.held, t.fedBy, t.attempts, t.started = true, st, h.Attempts, h.Started
		if !s.placeLocked(t) {
			// A stream left memory between load and now: the next page has it.
			s.recycle(t)
			st.heldFrom.Store(n)
			all = false
			break
		}
		st.fed++
		s.open.Add(1)
		if s.arriveLocked(t, &a) {
			s.bufferLocked(t, &a)
		}
		for _, slot := range t.slots {
			if slot.stream != st {
				streams = append(streams, slot.stream)
			}
		}
	}
	switch {
	case st.parking != nil || st.fed > 0:
	case all && st.holding == 0:
		st.heldFrom.Store(notHeld)
	case st.holding == 0:
		s.feedLocked(st)
	}
	s.mu.Unlock()
	s.do(&a)
	s.pump(ctx, streams)
	return nil
}

// feedsLocked tells whether nothing keeps a held event from being fed but that
// other streams of it have not been fed as far.
func (s *Sequencer) feedsLocked(t *task) bool {
	for _, slot := range t.slots {
		if slot.stream.isHeld(slot.number) && slot.stream.parking != nil {
			return false
		}
	}
	return true
}

// fedLocked takes note that a fed event has ended.
func (s *Sequencer) fedLocked(t *task) {
	st := t.fedBy
	if st == nil {
		return
	}
	t.fedBy = nil
	if st.fed--; st.fed == 0 {
		s.continueFeedingLocked(st)
	}
}

// continueFeedingLocked has a stream fed further that is not through yet.
func (s *Sequencer) continueFeedingLocked(st *stream) {
	if !st.gone && st.parking == nil && st.fed == 0 && st.holding == 0 && st.heldFrom.Load() != notHeld {
		s.feedLocked(st)
	}
}
