package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
)

// batchSender sends several events in one request, as [Client.Send] does.
type batchSender interface {
	Send(ctx context.Context, events []*ordering.Event) (errs []error, err error)
}

// resendBatch is how many events are sent again in one request.
const resendBatch = 100

// resender keeps the events that the primary has confirmed last. While the
// backup is in use, one goroutine sends them by it in the order in which they
// were confirmed, until the receiver has them, or will never take them.
type resender struct {
	p       *Publisher
	work    context.Context // ends with close
	stop    context.CancelFunc
	sending sync.WaitGroup

	mu struct {
		sync.Mutex
		ring    []*confirmed
		next    int             // where the next one is put, and the oldest is
		running bool            // the goroutine will look for what is due
		watched <-chan struct{} // of the primary's life whose end will be noticed
		unwatch func() bool
	}
}

// confirmed is an event that the primary has confirmed.
type confirmed struct {
	at    time.Time
	event *ordering.Event // nil once it is done with; of the goroutine that sends
}

func newResender(p *Publisher) *resender {
	r := &resender{p: p}
	r.work, r.stop = context.WithCancel(context.Background())
	r.mu.ring = make([]*confirmed, p.cfg.Resend)
	r.mu.unwatch = func() bool { return true }
	return r
}

func (r *resender) close() {
	r.mu.Lock()
	r.stop()
	r.mu.unwatch()
	r.mu.Unlock()
	r.sending.Wait()
}

// keep keeps an event in place of the oldest one, and watches the primary, so
// that its end needs no other event to be noticed.
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

// start makes sure that what is kept is being sent.
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
				tell("backup: events that the primary had confirmed were not sent again", "error", err, "again_in", r.p.cfg.Probe)
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

// due returns what is to be sent, the oldest first. If it is nothing, the
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
// for an event or its size. The error is that of a request that may succeed later.
func (r *resender) send(list []*confirmed) error {
	events := make([]*ordering.Event, len(list))
	for i, c := range list {
		events[i] = c.event
	}
	errs, err := r.p.cfg.Backup.(batchSender).Send(r.work, events)
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
			r.p.cfg.Logger.Warn("backup: the receiver refuses an event that the primary had confirmed; it is not sent again",
				"event", list[i].event.Name(), "position", fmt.Sprintf("%.200s", ordering.FormatSequenceID(list[i].event.Positions)), "error", err)
		default:
			continue
		}
		list[i].event = nil
	}
	return nil
}
