package dispatcher

import (
	"sync"
	"sync/atomic"
)

// intake is the way in: it gives every accepted message its arrival number
// and keeps it until a worker takes all of them over into Dispatcher.mu.queue.
// It has a mutex of its own, held for a few instructions at a time, so that
// submitters and workers do not wait for each other. Where both mutexes are
// needed, Dispatcher.mu is taken first.
type intake[M any] struct {
	some   atomic.Bool // accepted is not empty; changed under mu
	spares sync.Pool   // of *task, the first of spareBatch or so

	mu struct {
		sync.Mutex
		lastID   uint64
		accepted fifo[M]
		spare    *task[M] // ended tasks for their next use, linked by next
		refused  error    // why nothing is accepted any more, or nil
	}
}

// spareTask returns a task for a new message.
func (in *intake[M]) spareTask() *task[M] {
	in.mu.Lock()
	t := in.mu.spare
	if t == nil {
		t, _ = in.spares.Get().(*task[M])
	}
	if t == nil {
		t = new(task[M])
	}
	in.mu.spare, t.next = t.next, nil
	in.mu.Unlock()
	return t
}

// accept gives the tasks of l their numbers and takes them in, all or none;
// it empties l if it does.
func (in *intake[M]) accept(l *fifo[M]) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.mu.refused != nil {
		return in.mu.refused
	}
	for t := l.first; t != nil; t = t.next {
		in.mu.lastID++
		t.id = in.mu.lastID
	}
	in.mu.accepted.append(l)
	in.some.Store(true)
	return nil
}

// takeOver moves what has been accepted to the end of queue.
func (in *intake[M]) takeOver(queue *fifo[M]) {
	in.mu.Lock()
	queue.append(&in.mu.accepted)
	in.some.Store(false)
	in.mu.Unlock()
}

// refuse ends acceptance, for the reason given first.
func (in *intake[M]) refuse(why error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.mu.refused == nil {
		in.mu.refused = why
	}
}
