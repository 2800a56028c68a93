package bench

import (
	"sync"

	"github.com/alitto/pond/v2"
	"github.com/panjf2000/ants/v2"
	"k8s.io/client-go/util/workqueue"
)

// startWorkqueue uses client-go's workqueue as it is meant to be, with keys as items, and
// a mailbox for each key that has messages: the workqueue keeps two workers off one key,
// the mailbox keeps the order. A second key is not looked at.
func startWorkqueue(workers int, handle func(*message)) (submit func(*message), stop func()) {
	var (
		queue   = workqueue.NewTyped[string]()
		slots   = make(chan struct{}, bound) // the workqueue has no bound
		running sync.WaitGroup

		mu    sync.Mutex
		boxes = make(map[string][]*message)
		free  spares[[]*message]
	)
	for range workers {
		running.Go(func() {
			for {
				key, down := queue.Get()
				if down {
					return
				}
				mu.Lock()
				box := boxes[key]
				delete(boxes, key)
				mu.Unlock()
				for _, m := range box {
					<-slots
					handle(m)
				}
				if cap(box) > 0 { // it was added again before its box was taken
					mu.Lock()
					free.give(box[:0])
					mu.Unlock()
				}
				queue.Done(key)
			}
		})
	}
	submit = func(m *message) {
		slots <- struct{}{}
		key := m.paths[0]
		mu.Lock()
		box, ok := boxes[key]
		if !ok {
			box = free.take()
		}
		boxes[key] = append(box, m)
		mu.Unlock()
		queue.Add(key)
	}
	return submit, func() { queue.ShutDown(); running.Wait() }
}

// startAnts uses a pool of ants with one function for all messages, its cheapest form. It
// has no queue: submit waits for a free worker.
func startAnts(workers int, handle func(*message)) (submit func(*message), stop func()) {
	var open sync.WaitGroup
	p, err := ants.NewPoolWithFuncGeneric(workers, func(m *message) { defer open.Done(); handle(m) })
	must(err)
	return func(m *message) { open.Add(1); must(p.Invoke(m)) }, func() { open.Wait(); p.Release() }
}

// startPondGo uses a pool of pond that is told to run a task and forget it.
func startPondGo(workers int, handle func(*message)) (submit func(*message), stop func()) {
	p := pond.NewPool(workers, pond.WithQueueSize(bound))
	return func(m *message) { must(p.Go(func() { handle(m) })) }, p.StopAndWait
}

// startPondSubmit uses the same pool, asked for a future that tells the result.
func startPondSubmit(workers int, handle func(*message)) (submit func(*message), stop func()) {
	p := pond.NewPool(workers, pond.WithQueueSize(bound))
	return func(m *message) { p.SubmitErr(func() error { handle(m); return nil }) }, p.StopAndWait
}
