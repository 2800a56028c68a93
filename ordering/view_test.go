package ordering

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/internal/pause"
)

// A withdrawal fails and closes its account and, by a transfer behind it, another one; a
// third account waits for a number; a fourth has a handler at work.
func TestView(t *testing.T) {
	story(t, Config[*Event]{GapTimeout: time.Hour, Dispatcher: dispatcher.Config[Job[*Event]]{Name: func(j Job[*Event]) string { return j.Event.ID }}}, func(t *testing.T, r *rig) {
		r.failing("withdrawal", errors.New("no money"))
		open := r.gate("slow")
		withdrawal := ev("withdrawal", "a=1")
		withdrawal.Payload = []byte(`{"amount":7}`)
		r.offer(withdrawal, ev("transfer", "a=2, b=1"), ev("later", "c=3"), ev("slow", "d=1"))
		look := func(q view.Query) view.View {
			v, err := r.seq.View(t.Context(), q)
			require.NoError(t, err)
			return v
		}
		table := func(v view.View, name string) view.Table {
			for _, table := range v.Tables {
				if table.Name == name {
					return table
				}
			}
			require.Fail(t, "no table "+name)
			return view.Table{}
		}
		v := look(view.Query{})
		assert.Equal(t, "sequencer", v.Kind)
		assert.Equal(t, []string{"1 streams wait for numbers that have not come", "1 parkings: an operator must decide"}, v.Problems)
		require.Len(t, v.Messages, 1)
		assert.Equal(t, "slow", v.Messages[0].Name)
		assert.Equal(t, "running", v.Messages[0].State)
		assert.IsType(t, new(Event), v.Messages[0].Payload)
		parked := table(v, "Parked streams")
		require.Len(t, parked.Rows, 1)
		assert.Equal(t, "a=1, b=1 (bound by transfer)", parked.Rows[0].Cells[0])
		assert.Contains(t, parked.Rows[0].Cells[1], "withdrawal after 1 attempts")
		assert.Contains(t, parked.Rows[0].Cells[2], "no money")
		assert.Equal(t, []string{"resume", "skip", "drop"}, parked.Rows[0].Actions)
		require.True(t, parked.Rows[0].Opens)
		payloads, err := r.seq.Payloads(t.Context(), parked.Rows[0].Target)
		require.NoError(t, err)
		require.Len(t, payloads, 1)
		assert.Equal(t, "withdrawal", payloads[0].Name)
		assert.JSONEq(t, `{"amount":7}`, string(payloads[0].Message.(*Event).Payload))
		_, err = r.seq.Payloads(t.Context(), "a=1 @X")
		require.ErrorIs(t, err, ErrNotParked)
		_, err = r.seq.Payloads(t.Context(), "a")
		require.ErrorIs(t, err, view.ErrAction)
		gaps := table(v, "Gaps")
		require.Len(t, gaps.Rows, 1)
		assert.Equal(t, []string{"c=1", "1"}, gaps.Rows[0].Cells[:2])
		assert.Equal(t, "default", table(v, "Owner").Rows[0].Cells[0])
		assert.Empty(t, table(look(view.Query{Key: key("d")}), "Parked streams").Rows)

		metrics, err := r.seq.Metrics(t.Context())
		require.NoError(t, err)
		values := map[string]float64{}
		for _, m := range metrics {
			for _, p := range m.Points {
				require.NotContains(t, values, m.Name+p.Of)
				values[m.Name+p.Of] = p.Value
			}
		}
		for name, want := range map[string]float64{
			"interlock.sequencer.eventsheld": 2, "interlock.sequencer.early": 1, "interlock.sequencer.gaps.open": 1,
			"interlock.parked.messages": 1, "interlock.dispatcher.messagesrunning": 1,
		} {
			assert.Equal(t, want, values[name], name)
		}

		act := func(name, target string) error {
			return r.seq.Act(dispatcher.WithOperator(t.Context(), "ann", "the client was called"), view.Action{Name: name, Target: target})
		}
		assert.ErrorIs(t, act("burn", "a=1"), view.ErrAction)
		for _, target := range []string{"a @X", "a=1, b=1 @X", "a//b=1 @X", "", "a=1", "a=1 @"} {
			assert.ErrorIs(t, act("skip", target), view.ErrAction, target)
		}
		assert.ErrorIs(t, act("skip", "d=1 @X"), ErrNotParked)
		for _, name := range []string{"resume", "skip", "drop"} { // a page that is old
			assert.ErrorIs(t, act(name, "a=2 @"+r.parked()[0].ID), ErrNotParked)
		}
		require.NoError(t, act("skip", parked.Rows[0].Target))
		synctest.Wait()
		assert.Equal(t, []string{"transfer"}, r.ran())
		v = look(view.Query{})
		assert.Empty(t, table(v, "Parked streams").Rows)
		decided := table(v, "Decided by operators")
		require.Len(t, decided.Rows, 1)
		assert.Equal(t, []string{"withdrawal", "a=1"}, decided.Rows[0].Cells[:2])
		assert.Equal(t, []string{"ann", "the client was called"}, decided.Rows[0].Cells[3:5])

		t.Log("a button of an old page gives up what it was shown for, or nothing")
		r.failing("second", errors.New("no money"))
		r.offer(ev("second", "a=3"))
		assert.ErrorIs(t, act("skip", parked.Rows[0].Target), ErrNotParked)
		assert.ErrorContains(t, act("skip", parked.Rows[0].Target), "look again")
		assert.Len(t, r.parked(), 1)
		require.NoError(t, act("drop", "a=3 @"+r.parked()[0].ID))
		assert.Empty(t, r.parked())
		open()
	})
}

// An operator sees that a number is missing and decides to skip it. By then the event with
// this number has come, and is parked at the same place: it is not given up by that.
func TestADecisionAboutAGapSparesTheEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, NewMemory())
		r.start(Config[*Event]{GapTimeout: time.Second})
		defer r.stop()
		r.failing("late", errors.New("no money"))
		target := func() string {
			v, err := r.seq.View(t.Context(), view.Query{})
			require.NoError(t, err)
			require.Len(t, v.Tables[0].Rows, 1)
			return v.Tables[0].Rows[0].Target
		}
		r.offer(ev("second", "a=2"))
		pause.For(t.Context(), 2*time.Second)
		gap := target()
		r.offer(ev("late", "a=1"))
		synctest.Wait()
		event := target()
		require.NotEqual(t, gap, event, "both are from a=1 on")
		for _, name := range []string{view.Resume, view.Skip, view.Drop} {
			require.ErrorIs(t, r.seq.Act(t.Context(), view.Action{Name: name, Target: gap}), ErrNotParked)
		}
		require.Equal(t, "late", r.parked()[0].Events[0].ID)
		require.NoError(t, r.seq.Act(t.Context(), view.Action{Name: view.Skip, Target: event}))
		synctest.Wait()
		require.Equal(t, []string{"second"}, r.ran())
	})
}

// TestADecisionIsAboutWhatFailed, also if another stream of the parking, which only waits
// for that, comes first in the list: its event is not given up.
func TestADecisionIsAboutWhatFailed(t *testing.T) {
	for name, park := range map[string]func(r *rig) (first string){
		"an event has failed": func(r *rig) string {
			r.failing("withdrawal", errors.New("no money"))
			r.offer(ev("withdrawal", "z=1"), ev("transfer", "z=2, a=1"), ev("later", "a=2, b=1"))
			return "z=1, a=1 (bound by transfer), b=1 (bound by later)"
		},
		"a number is missing": func(r *rig) string {
			r.offer(ev("transfer", "z=2, a=1"), ev("later", "a=2, b=1"))
			r.sleep(time.Minute)
			return "z=1, a=1 (bound by transfer), b=1 (bound by later)"
		},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, Config[*Event]{}, func(t *testing.T, r *rig) {
				streams := park(r)
				v, err := r.seq.View(t.Context(), view.Query{})
				require.NoError(t, err)
				require.Len(t, v.Tables[0].Rows, 1)
				row := v.Tables[0].Rows[0]
				require.Equal(t, streams, row.Cells[0])
				require.Equal(t, row.Target, r.parked()[0].Target())
				require.NoError(t, r.seq.Act(t.Context(), view.Action{Name: view.Skip, Target: row.Target}))
				assert.Equal(t, []string{"transfer", "later"}, r.ran())
				assert.Empty(t, r.parked())
			})
		})
	}
}

// TestOrigin: of the streams of a parking, the one to decide about.
func TestOrigin(t *testing.T) {
	closed := func(stream, bound string) ParkedStream {
		return ParkedStream{Stream: key(stream), Number: 1, Bound: bound}
	}
	for name, c := range map[string]struct {
		parking Parking
		want    string
	}{
		"the only one":                      {Parking{Streams: []ParkedStream{closed("a", "")}}, "a=1"},
		"not one that is bound":             {Parking{Streams: []ParkedStream{closed("a", "x"), closed("b", "y"), closed("c", ""), closed("d", "")}}, "c=1"},
		"the gap's":                         {Parking{Reason: Gap, Gap: Range{Stream: key("c")}, Streams: []ParkedStream{closed("a", "x"), closed("b", ""), closed("c", ""), closed("d", "")}}, "c=1"},
		"not the gap's, if that is bound":   {Parking{Reason: Gap, Gap: Range{Stream: key("a")}, Streams: []ParkedStream{closed("a", "x"), closed("b", "")}}, "b=1"},
		"a bound one, if there is no other": {Parking{Streams: []ParkedStream{closed("a", "x"), closed("b", "y")}}, "a=1"},
	} {
		origin, ok := c.parking.Origin()
		assert.True(t, ok, name)
		assert.Equal(t, c.want, origin.String(), name)
	}
	nothing := &Parking{ID: "p"}
	_, ok := nothing.Origin()
	assert.False(t, ok)
	assert.Empty(t, nothing.Target())
}
