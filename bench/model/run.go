package model

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// rig is a scenario at work.
type rig struct {
	Scenario
	seq     *ordering.Sequencer[*ordering.Event]
	random  *rand.Rand // the producer's
	streams []*stream
	index   map[lockkeys.Key]*stream
	shared  state // the channel of all streams
	active  mean  // streams in memory
	started time.Time
	elapsed time.Duration

	mu sync.Mutex // also for what it guards in streams
}

// stream is what the producer and the measurement know of a stream.
type stream struct {
	key     lockkeys.Key
	channel state
	replays *rand.Rand
	sent    []*sent // by number - 1

	// The rig's mutex guards these.
	inside   int // events that have come, or would have, and have not ended
	since    time.Time
	insideBy float64 // seconds times events inside
	time     mean    // in the system, in seconds
	recovery mean    // from when a gap was seen to when its event came, in seconds
	gaps     int
	failed   int // gaps that stayed open
	attempts int
	lost     int
	runs     int // of lost events
}

// sent is an event of the producer's, who keeps it for replays.
type sent struct {
	event *ordering.Event
	lost  bool
}

// Run plays a scenario. It is to be called in a bubble of virtual time.
func Run(ctx context.Context, s Scenario) (*Measured, error) {
	r := &rig{Scenario: s, random: rand.New(rand.NewPCG(s.Seed, 0)), index: map[lockkeys.Key]*stream{}, shared: state{Channel: s.Channel}}
	for i := range s.Streams {
		st := &stream{key: lockkeys.Must("order", strconv.Itoa(i)), channel: state{Channel: s.Channel}, replays: rand.New(rand.NewPCG(s.Seed, uint64(i+1)))}
		r.streams = append(r.streams, st)
		r.index[st.key] = st
	}
	store := ordering.NewMemory()
	seq, err := ordering.New(ctx, ordering.Config[*ordering.Event]{
		Store: store, Handler: r.handle, Replayer: ordering.ReplayerFunc(r.replay),
		GapTimeout: s.Gap, GapPolicy: dispatcher.DeadLetter, IdleTTL: s.IdleTTL,
		Dispatcher: dispatcher.Config[ordering.Job[*ordering.Event]]{Workers: s.Workers},
		Logger:     slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	r.seq = seq
	err = r.produce(ctx)
	return r.measured(), errors.Join(err, seq.Close(), store.Close())
}

// produce sends all events, and at the end one more of each stream that is not
// lost, to show the last gaps.
func (r *rig) produce(ctx context.Context) error {
	r.started = time.Now()
	draw := newShares(r.Streams, r.Skew)
	for range r.Events {
		time.Sleep(exponential(r.random, r.Arrival))
		st := r.streams[draw.draw(r.random)]
		if err := r.send(ctx, st, r.loses(st)); err != nil {
			return err
		}
		// At random, so as not to be in step with what makes streams leave.
		if r.IdleTTL > 0 && r.random.IntN(500) == 0 && time.Since(r.started) > 2*r.IdleTTL {
			r.active.add(float64(r.seq.Stats().Streams))
		}
	}
	r.elapsed = time.Since(r.started)
	for _, st := range r.streams {
		if len(st.sent) > 0 && st.sent[len(st.sent)-1].lost {
			if err := r.send(ctx, st, false); err != nil {
				return err
			}
		}
	}
	return r.seq.Drain(ctx)
}

func (r *rig) loses(st *stream) bool {
	if r.Shared {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.shared.loses(r.random)
	}
	return st.channel.loses(r.random)
}

func (r *rig) send(ctx context.Context, st *stream, lost bool) error {
	now := time.Now()
	service := exponential(r.random, r.Service)
	number := uint64(len(st.sent) + 1)
	e := &ordering.Event{
		ID: st.key.String() + "=" + strconv.FormatUint(number, 10), Time: now,
		Positions: []ordering.Position{{Stream: st.key, Number: number}},
		Payload:   binary.LittleEndian.AppendUint64(nil, uint64(service)),
	}
	r.mu.Lock()
	st.enter(now, 1)
	if lost {
		st.lost++
		if number == 1 || !st.sent[number-2].lost {
			st.runs++
		}
	}
	st.sent = append(st.sent, &sent{e, lost})
	r.mu.Unlock()
	if lost {
		return nil
	}
	return r.seq.Offer(ctx, e, nil)
}

// enter takes note that n events more, or less, are inside.
func (st *stream) enter(now time.Time, n int) {
	st.insideBy += float64(st.inside) * now.Sub(st.since).Seconds()
	st.inside += n
	st.since = now
}

func (r *rig) handle(_ context.Context, job ordering.Job[*ordering.Event]) error {
	time.Sleep(time.Duration(binary.LittleEndian.Uint64(job.Event.Payload)))
	now := time.Now()
	st := r.index[job.Event.Positions[0].Stream]
	r.mu.Lock()
	defer r.mu.Unlock()
	st.enter(now, -1)
	st.time.add(now.Sub(job.Event.Time).Seconds())
	return nil
}

// replay makes its attempts, one after the other.
func (r *rig) replay(ctx context.Context, missing ordering.Range, deliver func(context.Context, []*ordering.Event) error) (ordering.Answer, error) {
	st := r.index[missing.Stream]
	for attempt := range r.Tries {
		time.Sleep(r.Attempt)
		if r.answers(st) {
			events := r.found(st, missing)
			return ordering.Answer{Attempts: attempt + 1}, deliver(ctx, events)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	st.gaps++
	st.failed++
	st.enter(now, -int(missing.To-missing.From+1))
	return ordering.Answer{Attempts: r.Tries}, errors.New("no attempt succeeded")
}

// answers tells whether an attempt succeeds.
func (r *rig) answers(st *stream) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	st.attempts++
	return st.replays.Float64() < r.Success && !(r.Shared && r.shared.bad)
}

// found returns the events of a range, and takes note of how long they took to
// recover since the gap was seen.
func (r *rig) found(st *stream, missing ordering.Range) (events []*ordering.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st.gaps++
	seen := st.sent[missing.To].event.Time // that of the event after the gap
	for _, s := range st.sent[missing.From-1 : missing.To] {
		events = append(events, s.event)
		st.recovery.add(time.Since(seen).Seconds())
	}
	return events
}

func exponential(r *rand.Rand, rate float64) time.Duration {
	return time.Duration(r.ExpFloat64() / rate * float64(time.Second))
}
