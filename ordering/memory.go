package ordering

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/btree"

	"github.com/interlock-go/interlock/lockkeys"
)

// Memory is a [Store] that ends with the process: for tests, for a start, and
// for sources that send everything again after a restart. It keeps every
// stream, and every job state that was not pruned. Its methods wait only for
// each other.
type Memory struct {
	solo Solo
	mu   struct {
		sync.Mutex
		closed    bool
		consumers map[string]*memoryConsumer // by name
	}
}

var _ Store = (*Memory)(nil)

// NewMemory returns an empty store.
func NewMemory() *Memory {
	m := &Memory{}
	m.mu.consumers = map[string]*memoryConsumer{}
	return m
}

// Solo is that of all sequencers on the store.
func (m *Memory) Solo() *Solo { return &m.solo }

// memoryConsumer is the data of a consumer's name. The store's mutex guards it.
type memoryConsumer struct {
	terms    map[string]*memoryTerm // the latest of each partition
	streams  map[lockkeys.Key]*memoryStream
	jobs     map[place]JobState // by the first number that the event made done, or failed with
	commands map[string]JobState
	skips    map[lockkeys.Key][]Skipped
	marks    map[Hash]memoryMark
	parkings map[string]*memoryParking
	held     map[int64]HeldEvent
	lastHeld int64                    // the largest key of held so far
	index    *btree.BTreeG[heldPlace] // of held: each event on each of its streams
}

func (m *Memory) consumerLocked(name string) *memoryConsumer {
	c := m.mu.consumers[name]
	if c == nil {
		c = &memoryConsumer{
			terms:    map[string]*memoryTerm{},
			streams:  map[lockkeys.Key]*memoryStream{},
			jobs:     map[place]JobState{},
			commands: map[string]JobState{},
			skips:    map[lockkeys.Key][]Skipped{},
			marks:    map[Hash]memoryMark{},
			parkings: map[string]*memoryParking{},
			held:     map[int64]HeldEvent{},
			index:    btree.NewG(32, heldPlace.less),
		}
		m.mu.consumers[name] = c
	}
	return c
}

// enter locks the store, if it is open.
func (m *Memory) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	if m.mu.closed {
		m.mu.Unlock()
		return ErrStoreClosed
	}
	return nil
}

// Begin implements [Store].
func (m *Memory) Begin(ctx context.Context, c Consumer) (Term, error) {
	c, err := c.WithDefaults()
	if err != nil {
		return nil, err
	}
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	consumer := m.consumerLocked(c.Name)
	t := &memoryTerm{
		memoryReader: memoryReader{memory: m, name: c.Name},
		info:         TermInfo{Consumer: c, Number: 1, Token: 1, Since: time.Now()},
	}
	if last := consumer.terms[c.Partition]; last != nil {
		t.info.Number, t.info.Token = last.info.Number+1, last.info.Token+1
		t.info.Previous = &PreviousTerm{Holder: last.info.Holder, Since: last.info.Since, Ended: last.ended}
	}
	consumer.terms[c.Partition] = t
	return t, nil
}

// Reader implements [Store].
func (m *Memory) Reader(name string) Reader {
	c, _ := Consumer{Name: name}.WithDefaults() // for an invalid name there is no data
	return memoryReader{memory: m, name: c.Name}
}

// Commit commits a record in its own term. It is [Term].Commit for handlers,
// which have a record from [Job.Record] but no term.
func (m *Memory) Commit(ctx context.Context, r Record) error {
	if err := r.Validate(); err != nil {
		return err
	}
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	c := m.consumerLocked(r.Term.Name)
	if err := c.checkLocked(r.Term); err != nil {
		return err
	}
	return c.commitLocked(r)
}

// Close implements [Store].
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.closed = true
	return nil
}

// memoryReader implements [Reader] for a consumer's name.
type memoryReader struct {
	memory *Memory
	name   string
}

// enter locks the store, if it is open. The caller must unlock it.
func (r memoryReader) enter(ctx context.Context) (*memoryConsumer, error) {
	if err := r.memory.enter(ctx); err != nil {
		return nil, err
	}
	return r.memory.consumerLocked(r.name), nil
}

func (r memoryReader) leave() { r.memory.mu.Unlock() }

// memoryTerm is a term of [Memory].
type memoryTerm struct {
	memoryReader
	info  TermInfo
	ended bool // by its holder
}

// Info implements [Term].
func (t *memoryTerm) Info() TermInfo { return t.info }

// checkLocked returns an error unless the term is the latest of its partition
// and has not ended.
func (c *memoryConsumer) checkLocked(info *TermInfo) error {
	last := c.terms[info.Partition]
	switch {
	case last == nil || last.info.Token < info.Token:
		lost := &LostError{Term: true, Known: uint64(info.Number)}
		if last != nil {
			lost.Has = uint64(last.info.Number)
		}
		return lost
	case last.info.Token != info.Token || last.ended:
		return &TakenOverError{Consumer: last.info.Consumer, Since: last.info.Since, Ended: last.info.Token == info.Token}
	}
	return nil
}

// begin locks the store, if it is open and the term has not ended. The caller
// must unlock it.
func (t *memoryTerm) begin(ctx context.Context) (*memoryConsumer, error) {
	c, err := t.enter(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.checkLocked(&t.info); err != nil {
		t.leave()
		return nil, err
	}
	return c, nil
}

// End implements [Term].
func (t *memoryTerm) End(ctx context.Context) error {
	c, err := t.enter(ctx)
	if err != nil {
		return err
	}
	defer t.leave()
	if t.ended && c.terms[t.info.Partition] == t {
		return nil
	}
	if err := c.checkLocked(&t.info); err != nil {
		return err
	}
	t.ended = true
	return nil
}

// memoryStream is the state of a stream.
//
// Invariant: the numbers in done are above last+1.
type memoryStream struct {
	fence   int64
	holder  *TermInfo // who acquired it last
	last    uint64
	done    Spans
	ended   uint64
	pruned  uint64         // the largest number of which a job state was pruned
	held    int64          // how many events of it are held
	parking *memoryParking // that closes it, or nil
}

func (st *memoryStream) isDone(n uint64) bool { return n <= st.last || st.done.Contains(n) }

// isNotDone returns the parts of r that are not done.
func (st *memoryStream) isNotDone(r Span) []Span {
	if r.From = max(r.From, st.last+1); r.From > r.To {
		return nil
	}
	return st.done.Without(r)
}

func (st *memoryStream) setDone(from, to uint64) {
	if from > st.last+1 {
		st.done = st.done.Add(Span{From: from, To: to})
		return
	}
	var next uint64
	next, st.done = st.done.Absorb(max(st.last, to) + 1)
	st.last = next - 1
}

func (c *memoryConsumer) streamLocked(key lockkeys.Key) *memoryStream {
	st := c.streams[key]
	if st == nil {
		st = &memoryStream{}
		c.streams[key] = st
	}
	return st
}

// heldByLocked returns a stream if the token is that of its holder.
func (c *memoryConsumer) heldByLocked(fence int64, key lockkeys.Key) (*memoryStream, error) {
	st := c.streams[key]
	switch {
	case st == nil || fence <= 0 || fence > st.fence:
		return nil, fmt.Errorf("%w: stream %s, token %d", ErrFenced, key, fence)
	case fence < st.fence:
		return nil, &TakenOverError{Consumer: st.holder.Consumer, Since: st.holder.Since, Stream: &key}
	}
	return st, nil
}

// Acquire implements [Term].
func (t *memoryTerm) Acquire(ctx context.Context, streams []lockkeys.Key) ([]StreamState, error) {
	c, err := t.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer t.leave()
	states := make([]StreamState, len(streams))
	for i, key := range streams {
		st := c.streamLocked(key)
		st.fence++
		st.holder = &t.info
		state := StreamState{Last: st.last, Done: append(Spans(nil), st.done...), Fence: st.fence, Ended: st.ended, HeldAt: c.firstHeldLocked(key)}
		if p := st.parking; p != nil {
			state.Parked = p.ID
			if at := p.streams[key].Position().Place(); state.HeldAt == 0 || at < state.HeldAt {
				state.HeldAt = at
			}
		}
		states[i] = state
	}
	return states, nil
}
