package ordering

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
)

// saying is the event with another payload.
func saying(e *Event, text string) *Event {
	e.Payload = []byte(text)
	return e
}

// TestANumberIsOneEvents: another event with the numbers of one is refused,
// whatever has become of that: it is neither run nor taken for a duplicate, and
// that is told.
func TestANumberIsOneEvents(t *testing.T) {
	first := func() *Event { return saying(ev("x", "a=2, b=1"), "pay 10") }
	stages := map[string]func(r *rig) (more func()){
		"in flight": func(r *rig) func() {
			open := r.gate("x")
			r.offer(ev("a1", "a=1"), first())
			return open
		},
		"early": func(r *rig) func() {
			r.offer(first())
			return func() { r.offer(ev("a1", "a=1")) }
		},
		"held": func(r *rig) func() {
			r.failing("a1", errors.New("bad"))
			r.offer(ev("a1", "a=1"), first())
			r.failing("a1", nil)
			return func() { require.NoError(r.t, r.seq.Resume(r.t.Context(), key("a"))) }
		},
		"held, after a restart": func(r *rig) func() {
			r.failing("a1", errors.New("bad"))
			r.offer(ev("a1", "a=1"), first())
			r.failing("a1", nil)
			r.stop()
			r.start(Config[*Event]{})
			return func() { require.NoError(r.t, r.seq.Resume(r.t.Context(), key("a"))) }
		},
		"held behind a gap": func(r *rig) func() {
			r.offer(first())
			r.sleep(time.Minute)
			return func() { r.offer(ev("a1", "a=1")) }
		},
		"parked": func(r *rig) func() {
			r.failing("x", errors.New("bad"))
			r.offer(ev("a1", "a=1"), first())
			r.failing("x", nil)
			return func() { require.NoError(r.t, r.seq.Resume(r.t.Context(), key("b"))) }
		},
		"done": func(r *rig) func() {
			r.offer(ev("a1", "a=1"), first())
			return func() {}
		},
		"done, after a restart": func(r *rig) func() {
			r.offer(ev("a1", "a=1"), first())
			r.stop()
			r.start(Config[*Event]{})
			return func() {}
		},
	}
	others := map[string]*Event{
		"another ID":             saying(ev("y", "a=2, b=1"), "pay 10"),
		"another body":           saying(ev("x", "b=1, a=2"), "pay 1000000"),
		"another type":           {ID: "x", Type: "refund", Positions: first().Positions, Payload: []byte("pay 10")},
		"no ID":                  saying(ev("", "a=2, b=1"), "pay 10"),
		"the end of a stream":    saying(ev("x", "a=2, b=1;end"), "pay 10"),
		"another body, no bytes": saying(ev("x", "a=2, b=1"), ""),
	}
	for stage, reach := range stages {
		for name, other := range others {
			t.Run(stage+"/"+name, func(t *testing.T) {
				story(t, Config[*Event]{}, func(t *testing.T, r *rig) {
					more := reach(r)
					var told []Outcome
					copied := *other
					require.NoError(t, r.seq.Offer(t.Context(), &copied, func(_ *Event, o Outcome) { told = append(told, o) }))
					synctest.Wait()
					require.Len(t, told, 1)
					require.Equal(t, Refused, told[0].Result, told[0].Err)
					require.False(t, told[0].Ack())
					var conflict *ConflictError
					require.ErrorAs(t, told[0].Err, &conflict)
					require.ErrorIs(t, told[0].Err, ErrContradiction)
					assert.Equal(t, "x", conflict.Other)
					assert.ErrorContains(t, conflict, copied.Name())
					assert.Contains(t, r.kinds(), EventRefused)
					assert.EqualValues(t, 1, r.seq.Stats().Conflicts)
					again := first()
					again.Headers = map[string]string{"x-death": "1"} // which a broker adds
					r.offer(again)
					more()
					assert.Equal(t, []string{"a1", "x"}, r.ran())
					assert.NotContains(t, r.outcome("x"), Refused, "its copy is none")
					assert.Empty(t, r.parked())
					assert.EqualValues(t, 1, r.seq.Stats().Conflicts)
				})
			})
		}
	}
}

// TestPartsOfWhatIsDone: numbers that are done by several events, or by none.
func TestPartsOfWhatIsDone(t *testing.T) {
	source := &archive{noSuch: []Range{{Stream: key("c"), From: 1, To: 2}}}
	story(t, Config[*Event]{Failure: dispatcher.DeadLetter, Replayer: source, GapTimeout: time.Second}, func(t *testing.T, r *rig) {
		r.failing("given", errors.New("no money"))
		r.offer(ev("a1", "a=1"), ev("b1", "b=1"), ev("both", "a=2, b=2"), ev("given", "a=3"), ev("c3", "c=3"))
		r.sleep(time.Minute)
		for _, e := range []*Event{
			ev("of two", "a=1, b=1"), ev("a1", "a=1, b=1"), ev("both", "a=2"), ev("both", "b=2, a=2, d=1"), ev("late", "c=1"), ev("c=1-2", "c=1"),
			ev("new", "a=3"), ev("of three", "a=1, b=2"),
		} {
			r.offer(e)
			outcomes := r.outcome(e.ID)
			assert.Equal(t, Refused, outcomes[len(outcomes)-1], "%s %v", e.ID, e.Positions)
		}
		assert.EqualValues(t, 8, r.seq.Stats().Conflicts)
		r.offer(ev("a1", "a=1"), ev("both", "b=2, a=2"), ev("given", "a=3"))
		assert.Equal(t, Duplicate, r.outcome("a1")[2])
		assert.Equal(t, Duplicate, r.outcome("both")[3])
		assert.Equal(t, []Result{DeadLettered, Duplicate}, r.outcome("given"))
		assert.Equal(t, []string{"a1", "b1", "both", "c3"}, slices.Sorted(slices.Values(r.ran())))
	})
}

// TestWhatWasPrunedIsADuplicateByItsNumbers, which is told and counted: a producer that
// gives numbers again, long after, would lose its events without a word else.
func TestWhatWasPrunedIsADuplicateByItsNumbers(t *testing.T) {
	var log bytes.Buffer
	cfg := Config[*Event]{Retention: time.Hour, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	story(t, cfg, func(t *testing.T, r *rig) {
		r.offer(ev("a1", "a=1"))
		r.sleep(3 * time.Hour)
		r.offer(ev("a1", "a=1"), ev("another", "a=1"))
		assert.Equal(t, []Result{Applied, Duplicate}, r.outcome("a1"))
		assert.Equal(t, []Result{Duplicate}, r.outcome("another"))
		assert.EqualValues(t, 2, r.seq.Stats().Unconfirmed)
		require.Equal(t, []NoticeKind{Unconfirmed, Unconfirmed}, r.kinds())
		told := r.notices[1]
		assert.Equal(t, "another", told.Event.ID)
		assert.Equal(t, key("a"), told.Stream)
		require.ErrorIs(t, told.Err, ErrUnconfirmed)
		assert.Equal(t, 2, strings.Count(log.String(), "by its numbers alone"))
		assert.Contains(t, log.String(), "event=another numbers=\"a=1\"")
	})
}

// TestABriefSourceIsNotWarned of what it has asked for: that a number says all.
func TestABriefSourceIsNotWarned(t *testing.T) {
	story(t, Config[*Event]{Brief: true, Retention: time.Hour}, func(t *testing.T, r *rig) {
		r.offer(ev("a1", "a=1"))
		r.sleep(3 * time.Hour)
		r.offer(ev("a1", "a=1"))
		assert.Equal(t, []Result{Applied, Duplicate}, r.outcome("a1"))
		assert.EqualValues(t, 1, r.seq.Stats().Unconfirmed)
		assert.Empty(t, r.kinds())
	})
}

// TestOneIDForManyNumbers: all run, however they come, and it is told once.
func TestOneIDForManyNumbers(t *testing.T) {
	var log bytes.Buffer
	ran := map[string]int{}
	cfg := Config[*Event]{GapTimeout: time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	var r *rig
	cfg.Handler = func(_ context.Context, job Job[*Event]) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.fail["all"] != nil {
			return r.fail["all"]
		}
		ran[string(job.Event.Payload)]++
		return nil
	}
	story(t, cfg, func(t *testing.T, this *rig) {
		r = this
		offer := func(stream string, n int) {
			e := ev("same", fmt.Sprintf("%s=%d", stream, n))
			r.offer(saying(e, e.Positions[0].String()))
		}
		for n := range 6 { // early, then held behind a gap
			for _, stream := range []string{"a", "b", "c"} {
				offer(stream, n+2)
			}
			r.sleep(500 * time.Millisecond)
		}
		for _, stream := range []string{"a", "b", "c"} {
			offer(stream, 1)
		}
		assert.Len(t, ran, 21)
		r.failing("all", errors.New("down"))
		for n := range 3 { // parked
			offer("a", n+8)
			offer("b", n+8)
		}
		r.failing("all", nil)
		require.NoError(t, r.seq.Resume(t.Context(), key("a")))
		require.NoError(t, r.seq.Resume(t.Context(), key("b")))
		synctest.Wait()
		assert.Len(t, ran, 27)
		for name, n := range ran {
			assert.Equal(t, 1, n, name)
		}
		assert.NotContains(t, r.outcome("same"), Duplicate)
		assert.NotContains(t, r.outcome("same"), Refused)
		assert.Empty(t, r.parked())
		same := 0
		for _, kind := range r.kinds() {
			if kind == SameID {
				same++
			}
		}
		assert.Equal(t, 1, same)
		assert.EqualValues(t, 26, r.seq.Stats().SameID)
		assert.Equal(t, 1, bytes.Count(log.Bytes(), []byte("has the ID of another")))
	})
}

func TestHashIsOfWhatAnEventSays(t *testing.T) {
	e := Event{ID: "x", Type: "pay", Positions: ev("", "a=1, b=2;end").Positions, Payload: []byte("10")}
	same := map[string]func(*Event){
		"the ID": func(e *Event) { e.ID = "y" }, "headers": func(e *Event) { e.Headers = map[string]string{"a": "b"} },
		"the time": func(e *Event) { e.Time = time.Now() }, "IDs of others": func(e *Event) { e.CorrelationID, e.CausationID = "c", "d" },
		"the order of positions": func(e *Event) { e.Positions = ev("", "b=2;end, a=1").Positions },
	}
	for name, change := range same {
		other := e
		change(&other)
		assert.Equal(t, e.Hash(), other.Hash(), name)
	}
	others := map[string]func(*Event){
		"the type": func(e *Event) { e.Type = "" }, "payload": func(e *Event) { e.Payload = nil },
		"what is where": func(e *Event) { e.Type, e.Payload = "pay1", []byte("0") },
		"no end":        func(e *Event) { e.Positions = ev("", "a=1, b=2").Positions },
		"another end":   func(e *Event) { e.Positions = ev("", "a=1;end, b=2").Positions },
	}
	for name, change := range others {
		other := e
		change(&other)
		assert.NotEqual(t, e.Hash(), other.Hash(), name)
		assert.False(t, e.IsCopy(&other), name)
	}
	empty := e
	e.Payload, empty.Payload = nil, []byte{}
	assert.Equal(t, e.Hash(), empty.Hash())
	assert.NotEqual(t, Hash{}, (&Event{}).Hash())
}

// TestNoDeadLetterIsToldOfThatIsNone: what is parked, or held behind that, is no
// dead letter, in the log either.
func TestNoDeadLetterIsToldOfThatIsNone(t *testing.T) {
	var log bytes.Buffer
	cfg := Config[*Event]{Logger: slog.New(slog.NewTextHandler(&log, nil)), DeadLetter: func(context.Context, *Event, error) error { return nil }}
	story(t, cfg, func(t *testing.T, r *rig) {
		r.failing("a1", errors.New("bad"))
		r.offer(series("a", 1, 3)...)
		require.Len(t, r.parked(), 1)
		assert.Contains(t, log.String(), "streams parked")
		assert.NotContains(t, log.String(), "dead")
	})
}
