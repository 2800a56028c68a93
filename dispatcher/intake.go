package dispatcher

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// intake is the way in. It bounds what is pending by count and, optionally, by
// bytes, gives every accepted message its arrival number, and keeps it until
// a worker takes all of them over into Dispatcher.mu.queue. It has a mutex of
// its own, held for a few instructions at a time, so that submitters and
// workers do not wait for each other. Where both mutexes are needed,
// Dispatcher.mu is taken first.
//
// A message that is pending has a slot. Slots come back in batches of an
// eighth of all, at most 32: a submitter that waits is woken once for many
// messages, not for each. Nothing starts later for it, since seven eighths of
// the messages are still before that of the submitter; and workers that run
// out of work give back what there is. With a bound by bytes, where few
// messages may be all there is, slots come back one by one.
type intake[M any] struct {
	maxCount, maxBytes int64 // maxBytes is 0 for no bound
	batch              int64

	spares sync.Pool   // of *task, the first of some linked by next
	some   atomic.Bool // there are accepted messages; changed under mu

	mu struct {
		sync.Mutex
		taken    slots
		lastID   uint64
		accepted fifo[M]
		refused  error // why nothing is accepted any more, or nil
	}

	// Who has to wait goes through the turnstile one by one, and out of it
	// when its messages are accepted; the one within waits for freed. While
	// anybody waits nobody else gets a slot, so that all get them in order.
	waiting   atomic.Int32
	turnstile *semaphore.Weighted
	freed     chan struct{}
	closed    context.Context // ends when nothing is accepted any more
}

// slots is a number of slots and the sum of the sizes of their messages.
type slots struct{ count, bytes int64 }

func newIntake[M any](closed context.Context, maxCount int, maxBytes int64) *intake[M] {
	batch := min(int64(maxCount)/8, 32)
	if maxBytes > 0 {
		batch = 1
	}
	return &intake[M]{
		maxCount: int64(maxCount), maxBytes: maxBytes, batch: batch,
		turnstile: semaphore.NewWeighted(1), freed: make(chan struct{}, 1), closed: closed,
	}
}

// spareTask returns a task for a new message.
func (in *intake[M]) spareTask() *task[M] {
	t, ok := in.spares.Get().(*task[M])
	if !ok {
		return new(task[M])
	}
	if t.next != nil {
		in.spares.Put(t.next)
		t.next = nil
	}
	return t
}

// accept takes in tasks from the front of l as long as there are slots, which
// there are for nobody while others wait, unless it is the caller's turn. The
// error is why nothing is accepted any more.
func (in *intake[M]) accept(l *fifo[M], turn bool) (n int, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.mu.refused != nil {
		return 0, in.mu.refused
	}
	if !turn && in.waiting.Load() > 0 {
		return 0, nil
	}
	for t := l.first; t != nil && in.room(t.size); t = l.first {
		l.pop()
		in.mu.taken.count++
		in.mu.taken.bytes += t.size
		in.mu.lastID++
		t.id = in.mu.lastID
		in.mu.accepted.push(t)
		n++
	}
	if n > 0 {
		in.some.Store(true)
	}
	return n, nil
}

// room tells whether there is a slot for a message of this size. It needs mu.
func (in *intake[M]) room(size int64) bool {
	taken := &in.mu.taken
	return taken.count < in.maxCount && (in.maxBytes == 0 || taken.bytes+size <= in.maxBytes)
}

// takeOver moves what has been accepted to the end of queue.
func (in *intake[M]) takeOver(queue *fifo[M]) {
	in.mu.Lock()
	queue.append(&in.mu.accepted)
	in.some.Store(false)
	in.mu.Unlock()
}

// giveBack gives slots back and empties s.
func (in *intake[M]) giveBack(s *slots) {
	in.mu.Lock()
	in.mu.taken.count -= s.count
	in.mu.taken.bytes -= s.bytes
	in.mu.Unlock()
	*s = slots{}
	if in.waiting.Load() > 0 {
		select {
		case in.freed <- struct{}{}:
		default:
		}
	}
}

// refuse ends acceptance, for the reason given first.
func (in *intake[M]) refuse(why error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.mu.refused == nil {
		in.mu.refused = why
	}
}

// enterTurnstile waits until it is the caller's turn. After it has returned
// nil, leaveTurnstile must be called.
func (in *intake[M]) enterTurnstile(ctx context.Context) error {
	in.waiting.Add(1)
	if in.turnstile.TryAcquire(1) {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(in.closed, func() { cancel(context.Cause(in.closed)) })()
	if in.turnstile.Acquire(ctx, 1) != nil {
		in.waiting.Add(-1)
		return context.Cause(ctx)
	}
	return nil
}

func (in *intake[M]) leaveTurnstile() {
	in.turnstile.Release(1)
	in.waiting.Add(-1)
}

// awaitFreed waits until slots have come back since accept was called last.
func (in *intake[M]) awaitFreed(ctx context.Context) error {
	select {
	case <-in.freed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-in.closed.Done():
		return context.Cause(in.closed)
	}
}
