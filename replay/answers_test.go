package replay_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
)

// Each odd answer that a source may give, to a replay of the numbers 5 to 8.
func TestOddAnswers(t *testing.T) {
	both := &ordering.Event{Positions: []ordering.Position{{Stream: other, Number: 4}, {Stream: order, Number: 8}}}
	type asked = [][2]uint64
	for _, c := range []struct {
		name   string
		steps  []step
		got    []uint64
		asked  asked
		noSuch []ordering.Range
	}{
		{"all at once", []step{givesAll}, upTo(5, 8), asked{{5, 8}}, nil},
		{"in chunks", []step{givesUpTo(3)}, upTo(5, 8), asked{{5, 8}, {8, 8}}, nil},
		{"one by one", []step{givesUpTo(1)}, upTo(5, 8), asked{{5, 8}, {6, 8}, {7, 8}, {8, 8}}, nil},
		{"shuffled and repeated", []step{gives(append(events(7, 8), append(events(5, 6), events(5, 5)...)...)...)},
			[]uint64{7, 8, 5, 6, 5}, asked{{5, 8}}, nil},
		{"with a hole", []step{gives(append(events(5, 5), events(7, 8)...)...), givesAll},
			[]uint64{5, 7, 8, 6}, asked{{5, 8}, {6, 6}}, nil},
		{"the first missing", []step{gives(events(6, 6)...), givesAll},
			[]uint64{6, 7, 8, 5}, asked{{5, 8}, {7, 8}, {5, 5}}, nil},
		{"an event on two streams", []step{gives(both), givesAll},
			[]uint64{8, 5, 6, 7}, asked{{5, 8}, {5, 7}}, nil},
		{"nothing at first", []step{gives(), givesAll}, upTo(5, 8), asked{{5, 8}, {5, 8}}, nil},
		{"not assigned at first", []step{fails(replay.ErrNotAssigned), givesAll}, upTo(5, 8), asked{{5, 8}, {5, 8}}, nil},
		{"none exists", []step{never(rangeOf(5, 8))}, []uint64{}, asked{{5, 8}}, []ordering.Range{rangeOf(5, 8)}},
		{"none exists, and many more", []step{never(rangeOf(1, ordering.MaxNumber))}, []uint64{}, asked{{5, 8}},
			[]ordering.Range{rangeOf(5, 8)}},
		{"one does not exist", []step{func(context.Context, uint64, uint64) (replay.Answer, error) {
			return replay.Answer{Events: append(events(5, 5), events(7, 8)...), NoSuch: []ordering.Range{rangeOf(6, 6)}}, nil
		}}, []uint64{5, 7, 8}, asked{{5, 8}}, []ordering.Range{rangeOf(6, 6)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source, box := scripted(c.steps...), &inbox{}
				r := replayer(t, replay.Config{Sources: of(source)})
				answer, err := r.Replay(t.Context(), rangeOf(5, 8), box.deliver)
				require.NoError(t, err)
				assert.Equal(t, c.got, box.numbers())
				assert.Equal(t, c.asked, source.asked())
				assert.Equal(t, c.noSuch, answer.NoSuch)
				assert.Equal(t, len(c.asked), answer.Attempts)
			})
		})
	}
}

// Answers that cannot be used are errors that name the source, what was asked
// and the event; nothing of them is delivered.
func TestBadAnswers(t *testing.T) {
	numberZero := &ordering.Event{ID: "e-7", Positions: []ordering.Position{{Stream: order}}}
	large := &ordering.Event{ID: "e-8", Positions: events(6, 6)[0].Positions, Payload: make([]byte, 5000)}
	wide := &ordering.Event{ID: "e-9", Positions: make([]ordering.Position, 10_000)}
	for _, c := range []struct {
		name string
		step step
		want string
	}{
		{"an event without a number", gives(append(events(5, 5), numberZero)...), `event 2 of 2: ordering: event "e-7"`},
		{"an event without positions", gives(&ordering.Event{ID: "e-9"}), `"e-9": no position`},
		{"no event", gives(nil, events(5, 5)[0]), "event 1 of 2 is nil"},
		{"too many events", gives(events(1, 11)...), "it has 11 events or ranges, more than MaxEvents, 10"},
		{"an event of another stream", gives(append(events(5, 5), &ordering.Event{ID: "theirs", Positions: []ordering.Position{{Stream: other, Number: 5}}})...),
			`event "theirs", order/8=5, was not requested`},
		{"a later event", gives(events(5, 7)...), `event "order/7=7", order/7=7, was not requested`},
		{"an earlier event", gives(events(4, 6)...), "order/7=4, was not requested"},
		{"one number, two IDs", gives(append(events(5, 6), &ordering.Event{ID: "e-7", Positions: events(5, 5)[0].Positions})...),
			`events "order/7=5" and "e-7" both have number 5`},
		{"one number, two bodies", gives(append(events(5, 6), &ordering.Event{Payload: []byte("x"), Positions: events(5, 5)[0].Positions})...),
			"both have number 5"},
		{"too many bytes", gives(large), "larger than MaxBytes, 5000"},
		{"too many bytes of positions", gives(wide), "larger than MaxBytes, 5000"},
		{"numbers of another stream", never(ordering.Range{Stream: other, From: 5, To: 6}), "order/8: 5 to 6 is not a range of numbers of order/7"},
		{"a range that falls", never(rangeOf(6, 5)), "is not a range"},
		{"a range from 0", never(rangeOf(0, 9)), "is not a range"},
		{"contradicts itself", func(context.Context, uint64, uint64) (replay.Answer, error) {
			return replay.Answer{Events: events(5, 6), NoSuch: []ordering.Range{rangeOf(6, 7)}}, nil
		}, "has number 6, which never existed by the same answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				box := &inbox{}
				r := replayer(t, replay.Config{Sources: of(scripted(c.step)), MaxEvents: 10, MaxBytes: 5000})
				answer, err := r.Replay(t.Context(), rangeOf(5, 6), box.deliver)
				assert.Empty(t, box.got)
				assert.Empty(t, answer.NoSuch)
				require.ErrorIs(t, err, replay.ErrAnswer)
				assert.ErrorContains(t, err, "replay: a: order/7: 5 to 6: bad answer")
				assert.ErrorContains(t, err, c.want)
				assert.Equal(t, "closed", r.Stats().Sources[0].Breaker, "the source can be reached")
			})
		})
	}
}

// An answer may have events that the ones asked for wait for, if they are welcome.
// They are delivered first, and count neither as asked for nor as unanswered.
func TestEventsBefore(t *testing.T) {
	on := func(id string, positions ...ordering.Position) *ordering.Event {
		return &ordering.Event{ID: id, Positions: positions}
	}
	third := lockkeys.Must("order", "9")
	a := on("a", ordering.Position{Stream: third, Number: 3})
	b := on("b", ordering.Position{Stream: third, Number: 7}, ordering.Position{Stream: other, Number: 2})
	c := on("c", ordering.Position{Stream: other, Number: 4}, ordering.Position{Stream: order, Number: 5})
	for _, tt := range []struct {
		name    string
		welcome int
		before  []*ordering.Event
		want    string // error
	}{
		{"none", 2, nil, ""},
		{"one", 2, []*ordering.Event{b}, ""},
		{"two, of which one waits for the other", 2, []*ordering.Event{a, b}, ""},
		{"more than are welcome", 1, []*ordering.Event{a, b}, "2 events before those of the range, 1 were welcome"},
		{"unwelcome", 0, []*ordering.Event{b}, "1 events before those of the range, 0 were welcome"},
		{"more than MaxEvents", 5, []*ordering.Event{b, b, b, b, b}, "6 events or ranges, more than MaxEvents, 5"},
		{"in the wrong order", 2, []*ordering.Event{b, a}, `event "a", order/9=3, is before no other one`},
		{"of no stream of the answer", 2, []*ordering.Event{a}, `event "a", order/9=3, is before no other one`},
		{"a later one", 2, []*ordering.Event{on("late", ordering.Position{Stream: other, Number: 5})}, `"late", order/8=5, is before no other one`},
		{"of a later epoch", 2, []*ordering.Event{on("late", ordering.Position{Stream: other, Epoch: 1, Number: 1})}, "is before no other one"},
		{"nil", 2, []*ordering.Event{nil}, "event 1 of 2 is nil"},
		{"not valid", 2, []*ordering.Event{on("zero", ordering.Position{Stream: other})}, `"zero"`},
		{"too large", 2, []*ordering.Event{{Positions: b.Positions, Payload: make([]byte, 5000)}}, "larger than MaxBytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var welcome []int
				source := replay.SourceFunc(func(_ context.Context, asked ordering.Range) (replay.Answer, error) {
					welcome = append(welcome, asked.Before)
					if asked.From > 5 {
						return replay.Answer{Events: events(asked.From, asked.To)}, nil
					}
					return replay.Answer{Events: []*ordering.Event{c}, Before: tt.before}, nil
				})
				box := &inbox{}
				r := replayer(t, replay.Config{Sources: of(source), MaxEvents: 5, MaxBytes: 5000, Attempts: 1})
				missing := rangeOf(5, 6)
				missing.Before = tt.welcome
				_, err := r.Replay(t.Context(), missing, box.deliver)
				if tt.want != "" {
					require.ErrorIs(t, err, replay.ErrAnswer)
					assert.ErrorContains(t, err, tt.want)
					assert.Empty(t, box.got)
					return
				}
				require.NoError(t, err)
				assert.Equal(t, slices.Concat(tt.before, []*ordering.Event{c}, events(6, 6)), box.got)
				assert.Equal(t, []int{2, 2 - len(tt.before)}, welcome, "no more than that in the whole replay")
			})
		})
	}
}

// What the first source does not have, the next one is asked for, in the same
// attempt.
func TestSourcesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, log, box := scripted(gives(events(6, 7)...), gives()), scripted(givesAll), &inbox{}
		r := replayer(t, replay.Config{Sources: of(cache, log)})
		answer, err := r.Replay(t.Context(), rangeOf(5, 9), box.deliver)
		require.NoError(t, err)
		assert.Equal(t, []uint64{6, 7, 5, 8, 9}, box.numbers())
		assert.Equal(t, [][2]uint64{{5, 9}, {8, 9}}, cache.asked())
		assert.Equal(t, [][2]uint64{{5, 5}, {8, 9}}, log.asked())
		assert.Equal(t, 4, answer.Attempts)
	})
}

// Only a source that is the producer's own can say that numbers never existed.
func TestACopyKnowsNothingOfWhatNeverExisted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sources := of(scripted(never(rangeOf(5, 6))), scripted(fails(replay.ErrNotRetained)))
		sources[0].Copy = true
		answer, err := replayer(t, replay.Config{Sources: sources}).Replay(t.Context(), rangeOf(5, 6), (&inbox{}).deliver)
		assert.Empty(t, answer.NoSuch)
		require.ErrorIs(t, err, replay.ErrCopy)

		sources[1].Source = scripted(never(rangeOf(5, 6)))
		answer, err = replayer(t, replay.Config{Sources: sources}).Replay(t.Context(), rangeOf(5, 6), (&inbox{}).deliver)
		require.NoError(t, err)
		assert.Equal(t, []ordering.Range{rangeOf(5, 6)}, answer.NoSuch)
	})
}

// The error says what is missing and what each source said of it.
func TestUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sources := of(scripted(gives(events(6, 6)...), gives()), scripted(fails(replay.ErrNotRetained)))
		box := &inbox{}
		answer, err := replayer(t, replay.Config{Sources: sources, Attempts: 2}).Replay(t.Context(), rangeOf(5, 8), box.deliver)
		var unanswered *replay.UnansweredError
		require.ErrorAs(t, err, &unanswered)
		assert.Equal(t, []ordering.Range{rangeOf(5, 5), rangeOf(7, 8)}, unanswered.Missing)
		assert.Equal(t, answer.Attempts, unanswered.Attempts)
		require.Len(t, unanswered.Errs, 2)
		assert.ErrorIs(t, err, replay.ErrNoAnswer)
		assert.ErrorIs(t, err, replay.ErrNotRetained)
		assert.Equal(t, []uint64{6}, box.numbers())
		assert.ErrorContains(t, err, "replay: no answer after 6 requests for (order/7: 5) (order/7: 7 to 8); "+
			"replay: a: order/7: 7 to 8: no answer for the first of the numbers; "+
			"replay: b: order/7: 7 to 8: replay: events are not retained any more")
	})
}

// What was given up may turn out never to have existed, with the answer for
// other numbers.
func TestGivenUpButAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := scripted(
			gives(events(6, 6)...), gives(), // 5 and 7 have had one attempt
			gives(), gives(events(7, 7)...), gives(), // 5 is given up, 8 has had one
			never(rangeOf(5, 5), rangeOf(8, 8)))
		box := &inbox{}
		answer, err := replayer(t, replay.Config{Sources: of(source), Attempts: 2}).Replay(t.Context(), rangeOf(5, 8), box.deliver)
		require.NoError(t, err)
		assert.Equal(t, [][2]uint64{{5, 8}, {7, 8}, {5, 5}, {7, 8}, {8, 8}, {8, 8}}, source.asked())
		assert.EqualValues(t, 4, len(box.numbers())+len(answer.NoSuch))
	})
}

// An error of deliver ends the replay and is returned as it is.
func TestDeliverFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full, source := errors.New("full"), scripted(givesUpTo(1))
		r := replayer(t, replay.Config{Sources: of(source)})
		_, err := r.Replay(t.Context(), rangeOf(5, 8), func(context.Context, []*ordering.Event) error { return full })
		assert.Equal(t, full, err)
		assert.Len(t, source.asked(), 1)
		assert.Zero(t, r.Stats().Open)
	})
}

func TestBadRanges(t *testing.T) {
	source := scripted(givesAll)
	r := replayer(t, replay.Config{Sources: of(source)})
	for _, bad := range []ordering.Range{rangeOf(0, 4), rangeOf(5, 4), rangeOf(1, ordering.MaxNumber+1)} {
		_, err := r.Replay(t.Context(), bad, (&inbox{}).deliver)
		require.ErrorIs(t, err, replay.ErrRange)
		assert.ErrorContains(t, err, bad.String())
	}
	_, err := r.Replay(t.Context(), rangeOf(1, 2), nil)
	require.ErrorIs(t, err, replay.ErrRange)
	assert.Empty(t, source.asked())
}
