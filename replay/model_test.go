package replay_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
)

// fickle is a source that answers for each number when it was asked often
// enough for a range that begins with it, and in between at random: in chunks,
// in any order, with holes, with ranges of numbers that nobody asked for.
type fickle struct {
	exists   map[uint64]bool
	patience map[uint64]int // requests for a range from this number that fail
	chunk    uint64
	choices  *choices
}

// choices are drawn before a bubble and used up in it, over and over.
type choices struct {
	drawn []int
	next  int
}

func drawChoices(t *rapid.T) *choices {
	return &choices{drawn: rapid.SliceOfN(rapid.IntRange(0, 59), 1, 100).Draw(t, "choices")}
}

// of returns a number from 0 to n-1.
func (c *choices) of(n uint64) uint64 {
	c.next++
	return uint64(c.drawn[c.next%len(c.drawn)]) % n
}

// bubble runs f in a bubble and returns its error, so that a failure is
// reported by the property and not by the bubble.
func bubble(t *testing.T, f func() error) (err error) {
	synctest.Test(t, func(*testing.T) { err = f() })
	return err
}

func (f *fickle) Fetch(_ context.Context, asked ordering.Range) (replay.Answer, error) {
	var a replay.Answer
	add := func(n uint64) {
		if f.exists[n] {
			a.Events = append(a.Events, events(n, n)...)
		} else {
			a.NoSuch = append(a.NoSuch, ordering.Range{Stream: asked.Stream, From: n, To: n})
		}
	}
	if f.patience[asked.From] > 0 {
		f.patience[asked.From]--
		switch f.choices.of(6) {
		case 0:
			return a, errOut
		case 1:
			return a, nil
		case 2:
			return a, replay.ErrNotAssigned
		case 3: // an answer that cannot be used
			return replay.Answer{Events: append(events(asked.From, asked.To), &ordering.Event{})}, nil
		case 4:
			return a, replay.RetryAfter(errOut, time.Second)
		}
		if asked.From == asked.To {
			return a, nil
		}
		add(asked.From + 1 + f.choices.of(asked.To-asked.From))
		return a, nil
	}
	for n := asked.From; n <= min(asked.To, asked.From+f.chunk-1); n++ {
		if n == asked.From || f.choices.of(4) > 0 {
			add(n)
		}
	}
	if !f.exists[asked.To+1] && f.choices.of(2) > 0 {
		add(asked.To + 1)
	}
	if len(a.Events) > 1 && f.choices.of(2) > 0 {
		slices.Reverse(a.Events)
	}
	return a, nil
}

// Of any source that answers for each number within R attempts, what exists of
// the range is delivered, and what does not exist is in the answer, no more
// and no less.
func TestCoversTheRange(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		attempts := rapid.IntRange(1, 5).Draw(rt, "R")
		from := rapid.Uint64Range(1, 1000).Draw(rt, "from")
		to := from + rapid.Uint64Range(0, 30).Draw(rt, "more numbers")
		source := &fickle{exists: map[uint64]bool{}, patience: map[uint64]int{}, choices: drawChoices(rt),
			chunk: rapid.Uint64Range(1, 40).Draw(rt, "chunk")}
		var exist, never []uint64
		for n := from; n <= to+1; n++ {
			source.exists[n] = rapid.IntRange(0, 4).Draw(rt, "exists") > 0
			source.patience[n] = rapid.IntRange(0, attempts-1).Draw(rt, "patience")
			switch {
			case n > to:
			case source.exists[n]:
				exist = append(exist, n)
			default:
				never = append(never, n)
			}
		}
		// The breaker is for sources that are down, and this one is not.
		r, err := replay.New(replay.Config{Sources: of(source), Attempts: attempts, Breaker: replay.Breaker{Failures: 1000}})
		require.NoError(rt, err)
		box := &inbox{}
		var answer ordering.Answer
		err = bubble(t, func() (err error) {
			answer, err = r.Replay(context.Background(), rangeOf(from, to), box.deliver)
			return err
		})
		require.NoError(rt, err)
		got := slices.DeleteFunc(box.numbers(), func(n uint64) bool { return n > to })
		slices.Sort(got)
		assert.Equal(rt, exist, nonNil(slices.Compact(got)))
		var noSuch []uint64
		for _, x := range answer.NoSuch {
			noSuch = append(noSuch, upTo(x.From, x.To)...)
		}
		assert.Equal(rt, never, noSuch)
	})
}

// Of any source, whatever it does, Replay ends, and each number of the range
// is delivered, or never existed, or is missing, and only one of them.
func TestAlwaysEnds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		from, to := uint64(5), 5+rapid.Uint64Range(0, 20).Draw(rt, "more numbers")
		var sources []replay.NamedSource
		for i := range rapid.IntRange(1, 3).Draw(rt, "sources") {
			source := &fickle{exists: map[uint64]bool{}, patience: map[uint64]int{}, choices: drawChoices(rt), chunk: 3}
			for n := uint64(5); n <= 26; n++ {
				source.exists[n] = n%5 > 0
				source.patience[n] = rapid.IntRange(0, 20).Draw(rt, "patience")
			}
			sources = append(sources, replay.NamedSource{Name: string(rune('a' + i)), Source: source,
				Copy: rapid.Bool().Draw(rt, "copy")})
		}
		r, err := replay.New(replay.Config{Sources: sources, Attempts: 3, Breaker: replay.Breaker{Failures: 2}})
		require.NoError(rt, err)
		box, seen := &inbox{}, map[uint64]int{}
		var answer ordering.Answer
		err = bubble(t, func() (err error) {
			answer, err = r.Replay(context.Background(), rangeOf(from, to), box.deliver)
			return err
		})
		got := box.numbers()
		slices.Sort(got)
		for _, n := range slices.Compact(got) {
			seen[n]++
		}
		ranges := answer.NoSuch
		if err != nil {
			var unanswered *replay.UnansweredError
			require.ErrorAs(rt, err, &unanswered)
			require.NotEmpty(rt, unanswered.Errs)
			ranges = append(ranges, unanswered.Missing...)
		}
		for _, x := range ranges {
			for n := x.From; n <= x.To; n++ {
				seen[n]++
			}
		}
		for n := from; n <= to; n++ {
			assert.Equal(rt, 1, seen[n], "number %d", n)
		}
	})
}

// nonNil is for comparing with a list that is nil when it is empty.
func nonNil(list []uint64) []uint64 {
	if len(list) == 0 {
		return nil
	}
	return list
}
