package interlocktest

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
)

var (
	firstSeed = flag.Uint64("interlocktest.seed", 0, "first seed of interlocktest.Run; without it, 1, after a parallel round")
	rounds    = flag.Uint64("interlocktest.rounds", 100, "number of seeds of interlocktest.Run")
)

// Run calls test in one round after the other, each a subtest in a bubble of
// testing/synctest, until one fails: in parallel first, and then with the seeds 1 to
// 100. The flags -interlocktest.seed and -interlocktest.rounds choose others.
//
// The test must make anew what its handlers change. It must not be in a bubble itself.
func Run[M any](t *testing.T, test func(r *Round[M])) {
	t.Helper()
	if *firstSeed == 0 && !t.Run("parallel", func(t *testing.T) { run(t, 0, test) }) {
		return
	}
	first := max(*firstSeed, 1)
	for seed := first; seed-first < *rounds; seed++ {
		if !t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { run(t, seed, test) }) {
			t.Logf("interlocktest: run it alone with\n\tgo test -run '%s' -interlocktest.seed=%d -interlocktest.rounds=1", only(t.Name()), seed)
			return
		}
	}
}

// only returns the pattern for one test.
func only(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

func run[M any](t *testing.T, seed uint64, test func(r *Round[M])) {
	synctest.Test(t, func(t *testing.T) { test(newRound[M](t, seed)) })
}

// Round is one round of [Run]. Its methods are for the goroutine of the test, except
// Dispatcher.
type Round[M any] struct {
	// T is for assertions, also in handlers.
	T *testing.T
	// Seed is that of the round, or 0 in the parallel round.
	Seed uint64
	// Rand is for what the test itself leaves to chance, and follows the seed.
	Rand *rand.Rand
	// MayFail says that messages may fail for good, or be left parked. Otherwise
	// that fails the test, unless Config.DeadLetter is set. Default: false.
	MayFail bool
	// Pause is the most time that passes between two steps while something could go
	// on. Beyond that, time goes on to the next message, or when nothing else can.
	// Default: 1 ms.
	Pause time.Duration

	messages   []submission[M]
	steps      *rand.Rand
	dispatcher *dispatcher.Dispatcher[M]
}

type submission[M any] struct {
	at time.Duration
	m  M
}

func newRound[M any](t *testing.T, seed uint64) *Round[M] {
	return &Round[M]{T: t, Seed: seed, Pause: time.Millisecond, Rand: rand.New(rand.NewPCG(seed, 1)), steps: rand.New(rand.NewPCG(seed, 2))}
}

// Submit adds messages that [Round.Dispatch] submits at its beginning.
func (r *Round[M]) Submit(messages ...M) { r.SubmitAt(0, messages...) }

// SubmitAt adds messages that [Round.Dispatch] submits when that time has passed, or
// a little later: in order of their times, and else as they were added.
func (r *Round[M]) SubmitAt(at time.Duration, messages ...M) {
	for _, m := range messages {
		r.messages = append(r.messages, submission[M]{at, m})
	}
}

// Dispatcher returns the dispatcher of the last call of Dispatch, for handlers that
// submit messages themselves. These must not wait for it.
func (r *Round[M]) Dispatcher() *dispatcher.Dispatcher[M] { return r.dispatcher }

// Dispatch submits the messages to a dispatcher with this configuration, runs them,
// and returns what has happened when all have ended. It fails the test, and goes on,
// if two handlers overlapped whose keys conflict, or two such messages did not run in
// the order in which they were accepted; if something was touched that is not
// protected, see [Touched]; or if a message failed, see MayFail.
//
// Workers is by default the number of messages, so that all orders come up. There is
// no jitter in the Backoff.
func (r *Round[M]) Dispatch(cfg dispatcher.Config[M]) *History[M] {
	r.T.Helper()
	h, problems := r.dispatch(cfg)
	for _, p := range problems {
		r.T.Error("interlocktest: " + p)
	}
	if r.T.Failed() {
		r.T.Logf("interlocktest: the history, seed %d:\n%v", r.Seed, h)
	}
	return h
}

// dispatch is Dispatch, and returns what is wrong.
func (r *Round[M]) dispatch(cfg dispatcher.Config[M]) (*History[M], []string) {
	messages := r.messages
	r.messages = nil
	slices.SortStableFunc(messages, func(a, b submission[M]) int { return int(a.at - b.at) })
	s := newStage(cfg, r, messages)
	d, err := dispatcher.New(s.config(cfg, len(messages)))
	if err != nil {
		return s.history, []string{err.Error()}
	}
	r.dispatcher = d
	go s.submit(r.T.Context(), d, messages)
	stuck := s.turns.conduct(s.drained)
	if stuck {
		s.fault("nothing has gone on for %v, with these messages: %+v", patience, d.Snapshot().Messages)
	}
	s.turns.open()
	parked := len(d.Parked()) > 0 // they are told of as failed
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := d.Shutdown(ctx); err != nil && !stuck && !parked {
		s.fault("%v", err)
	}
	return s.end()
}
