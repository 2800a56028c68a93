package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/contain"
	"github.com/interlock-go/interlock/ordering"
)

// batchSender sends several events in one request, as [Client.Send] does.
type batchSender interface {
	Send(ctx context.Context, events []*ordering.Event) (errs []error, err error)
}

// resendBatch is the number of events sent again in one request.
const resendBatch = 100

// resender keeps the latest events that the primary has confirmed. While the
// backup is in use, one goroutine sends them through it, in the order of
// confirmation, until the receiver has confirmed or refused them.
type resender struct {
	p       *Publisher
	work    context.Context // ends with shutdown
	stop    context.CancelFunc
	sending sync.WaitGroup

	mu struct {
		sync.Mutex
		ring    []*confirmed
		next    int             // index of the oldest one, which the next one replaces
		running bool            // the goroutine will call due again
		watched <-chan struct{} // of the context from Alive whose end calls lookAlive
		unwatch func() bool
	}
}

// confirmed is an event that the primary has confirmed.
type confirmed struct {
	at    time.Time
	event *ordering.Event // nil once it is confirmed or refused; only for the sending goroutine
}

func newResender(p *Publisher) *resender {
	r := &resender{p: p}
	r.work, r.stop = context.WithCancel(context.Background())
	r.mu.ring = make([]*confirmed, p.cfg.Resend)
	r.mu.unwatch = func() bool { return true }
	return r
}

func (r *resender) shutdown(ctx context.Context) error {
	r.mu.Lock()
	r.stop()
	r.mu.unwatch()
	r.mu.Unlock()
	over := make(chan struct{})
	go func() { r.sending.Wait(); close(over) }()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("backup: a request of resending has not ended: %w", context.Cause(ctx))
	}
}

// keep keeps an event in place of the oldest one, and watches the primary, so that
// the loss of its broker is noticed without another event.
func (r *resender) keep(e *ordering.Event) {
	life := r.p.cfg.Alive()
	r.mu.Lock()
	r.mu.ring[r.mu.next] = &confirmed{time.Now(), e}
	r.mu.next = (r.mu.next + 1) % len(r.mu.ring)
	if life.Done() != r.mu.watched && r.work.Err() == nil {
		r.mu.unwatch()
		r.mu.watched, r.mu.unwatch = life.Done(), context.AfterFunc(life, r.p.lookAlive)
	}
	r.mu.Unlock()
	if r.p.active() == Backup { // it was confirmed late
		r.start()
	}
}

// start starts the sending goroutine, unless it runs.
func (r *resender) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.mu.running && r.work.Err() == nil {
		r.mu.running = true
		r.sending.Go(r.run)
	}
}

func (r *resender) run() {
	tell := r.p.cfg.Logger.Warn
	for list := r.due(); len(list) > 0; list = r.due() {
		for batch := range slices.Chunk(list, resendBatch) {
			if err := r.send(batch); err != nil {
				tell("backup: events confirmed by the primary could not be sent again", "err", err, "again_in", r.p.cfg.Probe)
				tell = r.p.cfg.Logger.Debug
				break
			}
		}
		if !slices.ContainsFunc(list, func(c *confirmed) bool { return c.event != nil }) {
			continue
		}
		select {
		case <-time.After(r.p.cfg.Probe):
		case <-r.work.Done():
		}
	}
}

// due returns the events to be sent, the oldest first. If there are none, the
// goroutine ends.
func (r *resender) due() (list []*confirmed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ring, next := r.mu.ring, r.mu.next
	for _, c := range slices.Concat(ring[next:], ring[:next]) {
		if c != nil && c.event != nil && time.Since(c.at) <= r.p.cfg.ResendAge {
			list = append(list, c)
		}
	}
	if r.work.Err() != nil || r.p.active() != Backup {
		list = nil
	}
	r.mu.running = list != nil
	return list
}

// send sends events in one request, and in halves if that is refused as a whole,
// because of an event or the size. The error is that of a request that may succeed
// later.
func (r *resender) send(list []*confirmed) error {
	events := make([]*ordering.Event, len(list))
	for i, c := range list {
		events[i] = c.event
	}
	var errs []error
	err := contain.Apart(func() (err error) {
		errs, err = r.p.cfg.Backup.(batchSender).Send(r.work, events)
		return err
	})
	refused := dispatcher.IsPermanent(err) || errors.Is(err, ErrTooLarge) || errors.Is(err, ErrBadEvent)
	switch half := len(list) / 2; {
	case refused && half > 0:
		return errors.Join(r.send(list[:half]), r.send(list[half:]))
	case refused:
		errs = []error{dispatcher.Permanent(err)}
	case err != nil:
		return err
	}
	for i, err := range errs {
		switch {
		case err == nil:
			r.p.count(&r.p.mu.stats.Resent)
		case dispatcher.IsPermanent(err):
			r.p.count(&r.p.mu.stats.ResentInVain)
			r.p.cfg.Logger.Warn("backup: the receiver refuses an event confirmed by the primary; it is not sent again",
				"event", list[i].event.Name(), "position", fmt.Sprintf("%.200s", ordering.FormatSequenceID(list[i].event.Positions)), "err", err)
		default:
			continue
		}
		list[i].event = nil
	}
	return nil
}
