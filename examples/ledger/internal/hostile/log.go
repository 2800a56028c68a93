package hostile

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
)

// Log has all events that were sent, and answers for them as a
// [replay.Source] does: in chunks, with one twice, and now and then not at all.
type Log struct {
	// Chunk is the most numbers that an answer is about.
	Chunk int
	// Fails is the share of requests that fail.
	Fails float64

	events map[lockkeys.Key][]*ordering.Event // in order of their numbers

	mu struct {
		sync.Mutex
		random   *rand.Rand
		requests int
		failed   int
	}
}

// NewLog returns a log of events that are numbered without holes.
func NewLog(seed uint64, events []*ordering.Event) *Log {
	l := &Log{Chunk: 7, events: map[lockkeys.Key][]*ordering.Event{}}
	l.mu.random = rand.New(rand.NewPCG(seed, 0x109))
	for _, e := range events {
		for _, p := range e.Positions {
			l.events[p.Stream] = append(l.events[p.Stream], e)
		}
	}
	return l
}

var _ replay.Source = (*Log)(nil)

// ErrDown is the error of a request that fails.
var ErrDown = errors.New("hostile: the log is down")

// Fetch implements [replay.Source].
func (l *Log) Fetch(_ context.Context, asked ordering.Range) (replay.Answer, error) {
	all := l.events[asked.Stream]
	if asked.To > uint64(len(all)) {
		return replay.Answer{}, replay.ErrNotAssigned
	}
	chunk, ok := l.request(int(asked.To - asked.From + 1))
	if !ok {
		return replay.Answer{}, ErrDown
	}
	var answer replay.Answer
	for i := range chunk + 1 { // the first one again
		again := *all[asked.From-1+uint64(i%chunk)]
		answer.Events = append(answer.Events, &again)
	}
	slices.Reverse(answer.Events)
	return answer, nil
}

// request tells for how many of n numbers to answer, if the request succeeds.
func (l *Log) request(n int) (chunk int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.requests++
	if l.mu.random.Float64() < l.Fails {
		l.mu.failed++
		return 0, false
	}
	return 1 + l.mu.random.IntN(min(n, l.Chunk)), true
}

// Requests tells how many requests there were, and how many of them failed.
func (l *Log) Requests() (all, failed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.requests, l.mu.failed
}
