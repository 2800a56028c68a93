package ordering

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/lockkeys"
)

// TestAnOldHolderStops: a sequencer begins a term that another one has. That one
// can commit nothing any more, gives back what it has, says who has taken over,
// and the new one has every event.
func TestAnOldHolderStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemory()
		var log bytes.Buffer
		old, heir := newRig(t, store), newRig(t, store)
		old.start(Config[*Event]{Consumer: Consumer{Holder: "A"}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		open := old.gate("a2")
		old.offer(series("a", 1, 3)...)
		heir.start(Config[*Event]{Consumer: Consumer{Holder: "B"}})
		open() // the heir has not even asked for the stream
		assert.Equal(t, []Result{Unfinished}, old.outcome("a2"), "a zombie's commit is refused")
		var taken *TakenOverError
		err := old.seq.Offer(t.Context(), ev("b1", "b=1"), nil)
		require.ErrorIs(t, err, ErrStopped)
		require.ErrorAs(t, err, &taken)
		assert.Equal(t, "B", taken.Holder)
		assert.Contains(t, log.String(), "another holder has taken over")
		assert.Contains(t, log.String(), "holder=B")
		for seq, value := range map[*Sequencer[*Event]]float64{old.seq: 1, heir.seq: 0} {
			list, err := seq.Metrics(t.Context())
			require.NoError(t, err)
			i := slices.IndexFunc(list, func(m view.Metric) bool { return m.Name == "interlock.stopped" })
			assert.Equal(t, []view.Point{{Of: "taken_over", Value: value}, {Of: "failure"}}, list[i].Points)
		}
		old.stop()
		assert.Equal(t, []Result{Unfinished}, old.outcome("a3"))
		assert.Equal(t, []string{"a1", "a2"}, old.ran(), "a3 did not run")
		heir.offer(series("a", 2, 3)...)
		assert.Equal(t, []string{"a2", "a3"}, heir.ran())
		heir.stop()
	})
}

// TestNothingFollowsWhatWasLost: when an event is refused for one of its streams,
// which another partition's holder has by now, those behind it on the others are
// not run before it.
func TestNothingFollowsWhatWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemory()
		old, heir := newRig(t, store), newRig(t, store)
		old.start(Config[*Event]{Consumer: Consumer{Partition: "0"}})
		heir.start(Config[*Event]{Consumer: Consumer{Partition: "1"}})
		open := old.gate("x")
		old.offer(ev("x", "a=1, b=1"), ev("b2", "b=2"))
		heir.offer(ev("a2", "a=2"))
		open()
		assert.Equal(t, []string{"x"}, old.ran(), "its commit was refused, and b2 did not run")
		var taken *TakenOverError
		require.ErrorAs(t, old.seq.Err(), &taken)
		assert.Equal(t, key("a"), *taken.Stream)
		old.stop()
		assert.Equal(t, []Result{Unfinished}, old.outcome("b2"))
		heir.offer(ev("x", "a=1, b=1"), ev("b2", "b=2"))
		assert.Equal(t, "x", heir.ran()[0])
		assert.ElementsMatch(t, []string{"x", "a2", "b2"}, heir.ran())
		heir.stop()
	})
}

// TestRefusedMeansNever: processes take turns, A, B, and A again. What B has
// applied is a duplicate for A; what can run runs.
func TestRefusedMeansNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemory()
		a, b, again := newRig(t, store), newRig(t, store), newRig(t, store)
		a.start(Config[*Event]{})
		a.offer(ev("e1", "x=1, y=1"), ev("wrong", "x=3"))
		b.start(Config[*Event]{})
		b.offer(ev("e2", "x=2, y=2"), ev("e3", "x=3"))
		assert.Equal(t, []string{"e2", "e3"}, b.ran())
		a.stop()
		assert.Equal(t, []Result{Unfinished}, a.outcome("wrong"), "given back")
		again.start(Config[*Event]{})
		again.offer(ev("e2", "x=2, y=2"), ev("e3", "x=3"), ev("e4", "y=3, x=4"), ev("wrong", "x=3"))
		assert.Equal(t, []Result{Duplicate}, again.outcome("e2"))
		assert.Equal(t, []Result{Duplicate}, again.outcome("e3"))
		assert.Equal(t, []Result{Applied}, again.outcome("e4"))
		assert.Equal(t, []Result{Refused}, again.outcome("wrong"), "it contradicts e3")
		b.stop()
		again.stop()
	})
}

// TestWhatBelongsToAnotherHolderIsNotParked: neither when more events wait than
// may, nor when two of them contradict each other. Who has lost the stream stops.
func TestWhatBelongsToAnotherHolderIsNotParked(t *testing.T) {
	for name, late := range map[string][]*Event{
		"too many wait":   series("a", 10, 13),
		"a contradiction": {ev("x", "a=10, b=2"), ev("y", "a=11, b=1")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := NewMemory()
				old, heir := newRig(t, store), newRig(t, store)
				cfg := Config[*Event]{GapTimeout: time.Hour, MaxEarly: 3, Consumer: Consumer{Partition: "0"}}
				old.start(cfg)
				cfg.Consumer.Partition = "1"
				heir.start(cfg)
				old.offer(series("a", 1, 4)...)
				heir.offer(series("a", 5, 9)...)
				old.offer(late...)
				old.sleep(time.Hour)
				require.ErrorIs(t, old.seq.Err(), ErrFenced)
				heir.offer(series("a", 10, 10)...)
				assert.Equal(t, []Result{Applied}, heir.outcome("a10"))
				assert.Empty(t, heir.parked())
				old.stop()
				heir.stop()
			})
		})
	}
}

// TestATermThatNeverWorked: a sequencer that could not be made has ended its term in good
// order, unless it came after one that had not: the next one is to know of that.
func TestATermThatNeverWorked(t *testing.T) {
	store := &unreadable{Store: NewMemory()}
	began := func() error {
		seq, err := New(t.Context(), Config[*Event]{Store: store, Handler: func(context.Context, Job[*Event]) error { return nil }, Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			require.NoError(t, seq.Close())
		}
		return err
	}
	previous := func() *PreviousTerm {
		term, err := store.Store.Begin(t.Context(), Consumer{})
		require.NoError(t, err)
		return term.Info().Previous
	}
	store.err = errors.New("away")
	require.ErrorIs(t, began(), store.err)
	require.True(t, previous().Ended)

	require.ErrorIs(t, began(), store.err) // after the term that previous has begun, and left
	require.False(t, previous().Ended)
	store.err = nil
	require.NoError(t, began())
	require.True(t, previous().Ended)
}

// unreadable begins terms that cannot read while there is an error.
type unreadable struct {
	Store
	err error
}

func (s *unreadable) Begin(ctx context.Context, c Consumer) (Term, error) {
	term, err := s.Store.Begin(ctx, c)
	return &unreadableTerm{term, s}, err
}

type unreadableTerm struct {
	Term
	store *unreadable
}

func (t *unreadableTerm) Backlog(ctx context.Context) ([]lockkeys.Key, error) {
	if t.store.err != nil {
		return nil, t.store.err
	}
	return t.Term.Backlog(ctx)
}
