package bench

import (
	"context"
	"sync"

	"github.com/alitto/pond/v2"
	"github.com/panjf2000/ants/v2"
	"k8s.io/client-go/util/workqueue"
)

// slots bounds what is pending for a contender whose queue has no bound.
type slots chan struct{}

func (s slots) take() { s <- struct{}{} }
func (s slots) give() { <-s }

// item makes every hand-over of a message an item of its own: a workqueue
// drops one that equals one already queued.
type item struct {
	seq uint64
	msg *Msg
}

// queueOfMessages is client-go's workqueue with messages as items: the least
// that it can cost. Nothing keeps two messages of one key apart.
type queueOfMessages struct {
	queue   *workqueue.Typed[item]
	slots   slots
	seq     uint64
	workers sync.WaitGroup
}

func startWorkqueue(s Setup, h Handler) runner {
	r := &queueOfMessages{queue: workqueue.NewTyped[item](), slots: make(slots, s.Bound)}
	for range s.Workers {
		r.workers.Go(func() {
			for {
				it, down := r.queue.Get()
				if down {
					return
				}
				r.slots.give()
				_ = h(context.Background(), it.msg)
				r.queue.Done(it)
			}
		})
	}
	return r
}

func (r *queueOfMessages) Submit(m *Msg) {
	r.slots.take()
	r.seq++
	r.queue.Add(item{r.seq, m})
}

func (r *queueOfMessages) Close() {
	r.queue.ShutDown()
	r.workers.Wait()
}

// queueOfKeys is client-go's workqueue as it is meant to be used, with keys
// as items, and a mailbox for each key that has messages: the workqueue keeps
// two workers off one key, the mailbox keeps the order. A second key is not
// looked at.
type queueOfKeys struct {
	queue   *workqueue.Typed[string]
	slots   slots
	workers sync.WaitGroup

	mu    sync.Mutex
	boxes map[string][]*Msg
	free  [][]*Msg
}

func startWorkqueueByKey(s Setup, h Handler) runner {
	r := &queueOfKeys{
		queue: workqueue.NewTyped[string](),
		slots: make(slots, s.Bound),
		boxes: make(map[string][]*Msg),
	}
	for range s.Workers {
		r.workers.Go(func() {
			for {
				key, down := r.queue.Get()
				if down {
					return
				}
				box := r.takeBox(key)
				for _, m := range box {
					r.slots.give()
					_ = h(context.Background(), m)
				}
				r.freeBox(box)
				r.queue.Done(key)
			}
		})
	}
	return r
}

func (r *queueOfKeys) Submit(m *Msg) {
	r.slots.take()
	key := m.Paths[0]
	r.mu.Lock()
	box, ok := r.boxes[key]
	if n := len(r.free); !ok && n > 0 {
		box, r.free = r.free[n-1], r.free[:n-1]
	}
	r.boxes[key] = append(box, m)
	r.mu.Unlock()
	r.queue.Add(key)
}

func (r *queueOfKeys) takeBox(key string) []*Msg {
	r.mu.Lock()
	defer r.mu.Unlock()
	box := r.boxes[key]
	delete(r.boxes, key)
	return box
}

func (r *queueOfKeys) freeBox(box []*Msg) {
	if cap(box) == 0 {
		return
	}
	clear(box)
	r.mu.Lock()
	r.free = append(r.free, box[:0])
	r.mu.Unlock()
}

func (r *queueOfKeys) Close() {
	r.queue.ShutDown()
	r.workers.Wait()
}

// antsPool is a pool of ants with one function for all messages, its cheapest
// form. It has no queue: Submit waits for a free worker.
type antsPool struct {
	pool *ants.PoolWithFuncGeneric[*Msg]
}

func startAnts(s Setup, h Handler) runner {
	p, err := ants.NewPoolWithFuncGeneric(s.Workers, func(m *Msg) { _ = h(context.Background(), m) })
	if err != nil {
		panic(err)
	}
	return antsPool{p}
}

func (r antsPool) Submit(m *Msg) {
	if err := r.pool.Invoke(m); err != nil {
		panic(err)
	}
}

func (r antsPool) Close() { r.pool.Release() }

// pondGo is a pool of pond, told to run and forget.
type pondGo struct {
	pool    pond.Pool
	handler Handler
}

func newPond(s Setup, h Handler) pondGo {
	return pondGo{pond.NewPool(s.Workers, pond.WithQueueSize(s.Bound)), h}
}

func startPondGo(s Setup, h Handler) runner { return newPond(s, h) }

func (r pondGo) Submit(m *Msg) {
	if err := r.pool.Go(func() { _ = r.handler(context.Background(), m) }); err != nil {
		panic(err)
	}
}

func (r pondGo) Close() { r.pool.StopAndWait() }

// pondSubmit is the same pool, asked for a future that tells the result.
type pondSubmit struct{ pondGo }

func startPondSubmit(s Setup, h Handler) runner { return pondSubmit{newPond(s, h)} }

func (r pondSubmit) Submit(m *Msg) {
	r.pool.SubmitErr(func() error { return r.handler(context.Background(), m) })
}
