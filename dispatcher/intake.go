package dispatcher

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/interlock-go/interlock/lockkeys"
)

// intake is the bounded input queue: submitters append arrivals, workers take
// them out in the same order. It bounds the pending messages by count and,
// optionally, by bytes. It has a mutex of its own, held for a few instructions
// at a time, so that submitters and workers do not wait for each other.
// Arrivals are contiguous in memory, so that taking them out causes few cache
// misses. Lock order: Dispatcher.mu before intake.mu.
//
// A pending message has a slot. Slots are returned in batches of an eighth of
// all, at most 32, so that a waiting submitter is woken once for many messages.
// That delays no start, since seven eighths of the messages are still ahead of
// the submitter's; and workers that run out of work return all they have. With
// a bound by bytes, where a few messages may fill the queue, slots are returned
// one by one.
type intake[M any] struct {
	maxCount, maxBytes int64 // maxBytes is 0 for no bound
	batch              int64
	chunks             sync.Pool // of *chunk

	mu struct {
		sync.Mutex
		taken   slots
		lastID  uint64    // of the last arrival, from 1
		tail    *chunk[M] // where arrivals are appended, and how many
		filled  int       // it has
		refused error     // why nothing is accepted any more, or nil
	}
	some atomic.Bool // there are arrivals after out.known; changed under mu

	// Submitters that have to wait enter the turnstile one by one, and leave it
	// when their messages are accepted; the one inside waits for freed. While
	// one waits, no other gets a slot, so that they are served in order.
	waiting   atomic.Int32
	turnstile *semaphore.Weighted
	freed     chan struct{}
	closed    context.Context // ends when nothing is accepted any more

	_ [64]byte // so that the two ends are not in one cache line

	// The workers' end, guarded by Dispatcher.mu.
	out struct {
		head  *chunk[M] // of the next arrival, and
		index int       // its index there
		id    uint64    // of the last arrival taken out
		known uint64    // arrivals up to this one can be taken out without mu
	}
}

// arrival is a message with its keys, as submitted.
type arrival[M any] struct {
	msg   M
	claim lockkeys.Claim
	size  int64
	done  func(m M, err error)
	// The submitter's context, used only for its values; nil if it has none.
	values context.Context
	rare   *rare // usually nil
}

// rare holds what few arrivals need.
type rare struct {
	ticket  *Ticket
	keyErr  error // the key function failed
	refusal error // why it is not to be accepted
	timing  *timing
}

// set makes a a copy of b.
func (a *arrival[M]) set(b *arrival[M]) {
	a.msg, a.size, a.done, a.values, a.rare = b.msg, b.size, b.done, b.values, b.rare
	a.claim.Copy(&b.claim)
}

// reset clears a for reuse, and keeps its memory.
func (a *arrival[M]) reset() {
	var none M
	a.msg, a.done, a.values, a.rare = none, nil, nil, nil
	a.claim.Reset()
}

// chunk is a piece of the queue.
type chunk[M any] struct {
	arrivals [chunkSize]arrival[M]
	next     *chunk[M]
}

const chunkSize = 64

// slots is a number of slots and the sum of the sizes of their messages.
type slots struct{ count, bytes int64 }

func newIntake[M any](closed context.Context, maxCount int, maxBytes int64) *intake[M] {
	in := &intake[M]{
		maxCount: int64(maxCount), maxBytes: maxBytes, batch: min(int64(maxCount)/8, 32),
		turnstile: semaphore.NewWeighted(1), freed: make(chan struct{}, 1), closed: closed,
	}
	if maxBytes > 0 {
		in.batch = 1
	}
	in.mu.tail = new(chunk[M])
	in.out.head = in.mu.tail
	return in
}

// accept appends arrivals, from the first on, while there are slots. While
// others wait there are none, unless it is the caller's turn. It returns how
// many it has accepted, and the number of the last. The error is the reason why
// nothing is accepted any more.
func (in *intake[M]) accept(arrivals []arrival[M], turn bool) (n int, last uint64, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.mu.refused != nil {
		return 0, 0, in.mu.refused
	}
	if !turn && in.waiting.Load() > 0 {
		return 0, 0, nil
	}
	for n < len(arrivals) && in.room(arrivals[n].size) {
		if in.mu.filled == chunkSize {
			in.extend()
		}
		a := &in.mu.tail.arrivals[in.mu.filled]
		a.set(&arrivals[n])
		in.mu.filled++
		in.mu.lastID++
		in.mu.taken.count++
		in.mu.taken.bytes += a.size
		n++
	}
	if n > 0 && !in.some.Load() {
		in.some.Store(true)
	}
	return n, in.mu.lastID, nil
}

// room reports whether there is a slot for a message of this size. It needs mu.
func (in *intake[M]) room(size int64) bool {
	taken := &in.mu.taken
	return taken.count < in.maxCount && (in.maxBytes == 0 || size <= in.maxBytes-taken.bytes)
}

// extend appends an empty chunk. It needs mu.
func (in *intake[M]) extend() {
	c, ok := in.chunks.Get().(*chunk[M])
	if !ok {
		c = new(chunk[M])
	}
	in.mu.tail.next = c
	in.mu.tail, in.mu.filled = c, 0
}

// take removes the next arrival and returns it, or nil if there is none. The
// arrival is valid until the next call.
func (in *intake[M]) take() (a *arrival[M], id uint64) {
	out := &in.out
	if out.id == out.known {
		in.mu.Lock()
		out.known = in.mu.lastID
		in.some.Store(false)
		in.mu.Unlock()
		if out.id == out.known {
			return nil, 0
		}
	}
	if out.index == chunkSize {
		c := out.head
		out.head, out.index = c.next, 0
		c.next = nil
		in.chunks.Put(c)
	}
	a = &out.head.arrivals[out.index]
	out.index++
	out.id++
	return a, out.id
}

// empty reports whether the queue is empty. It needs Dispatcher.mu.
func (in *intake[M]) empty() bool { return in.out.id == in.out.known && !in.some.Load() }

// counts returns the number of messages accepted so far, and how many of them
// are still in the queue. It needs Dispatcher.mu.
func (in *intake[M]) counts() (accepted uint64, queued int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.mu.lastID, int(in.mu.lastID - in.out.id)
}

// giveBack returns the slots of s, and sets s to zero.
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

// refuse ends acceptance. Only the first reason counts.
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
	either, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(in.closed, cancel)()
	if in.turnstile.Acquire(either, 1) != nil {
		in.waiting.Add(-1)
		if ctx.Err() != nil {
			return endOf(ctx)
		}
		return context.Cause(in.closed)
	}
	return nil
}

func (in *intake[M]) leaveTurnstile() {
	in.turnstile.Release(1)
	in.waiting.Add(-1)
}

// awaitFreed waits until slots have been returned since the last call of
// accept.
func (in *intake[M]) awaitFreed(ctx context.Context) error {
	select {
	case <-in.freed:
		return nil
	case <-ctx.Done():
		return endOf(ctx)
	case <-in.closed.Done():
		return context.Cause(in.closed)
	}
}
