package saga

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// sequence is a plan of steps one after the other; one in capitals is the pivot, and one
// that ends with "-" has nothing to undo.
func sequence(names ...string) (p plan, r record) {
	for i, name := range names {
		step := planStep{pivot: strings.ToUpper(name) == name, undoes: !strings.HasSuffix(name, "-"), attempts: 3}
		if i > 0 {
			step.after = []int{i - 1}
		}
		p = append(p, step)
		r.Steps = append(r.Steps, stepRecord{Name: name})
	}
	return p, r
}

// stateOf is the state of a run in short: "running done started pending".
func stateOf(r record) string {
	words := []string{r.Status.String()}
	for _, s := range r.Steps {
		word := s.Status.String()
		if s.Parked {
			word += "!"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func TestTransitions(t *testing.T) {
	type turn struct {
		in   input
		want string // the state after it, or the error
	}
	ok := func(i int) input { return input{kind: completed, step: i} }
	refusedBy := func(i int) input {
		return input{kind: failed, step: i, known: true, final: true, err: "refused"}
	}
	lost := func(i int) input { return input{kind: failed, step: i, err: "lost"} }
	off := func(i int) input { return input{kind: gaveUp, step: i, err: "lost"} }
	back := func(i int) input { return input{kind: undone, step: i} }
	cannot := func(i int) input { return input{kind: undoFailed, step: i, final: true, err: "impossible"} }
	begin := turn{input{kind: granted}, "running started pending pending"}
	for name, test := range map[string]struct {
		steps []string
		turns []turn
	}{
		"all goes well": {[]string{"a", "b", "c"}, []turn{begin,
			{ok(0), "running done started pending"}, {ok(1), "running done done started"}, {ok(2), "completed done done done"},
			{ok(2), "saga: the run has ended already: it is completed"}}},
		"a refusal is compensated in reverse": {[]string{"a", "b", "c"}, []turn{begin,
			{ok(0), "running done started pending"}, {ok(1), "running done done started"}, {refusedBy(2), "compensating done undoing failed"},
			{back(1), "compensating undoing undone failed"}, {back(0), "compensated undone undone failed"}}},
		"an attempt of unknown outcome is followed by another one": {[]string{"a", "b", "c"}, []turn{begin,
			{lost(0), "running started pending pending"}, {ok(0), "running done started pending"}}},
		"what may have been done is undone too": {[]string{"a", "b", "c"}, []turn{begin,
			{ok(0), "running done started pending"}, {lost(1), "running done started pending"}, {off(1), "compensating done undoing pending"},
			{back(1), "compensating undoing undone pending"}, {back(0), "compensated undone undone pending"}}},
		"what has nothing to undo is not called": {[]string{"a", "b-", "c"}, []turn{begin,
			{ok(0), "running done started pending"}, {ok(1), "running done done started"}, {refusedBy(2), "compensating undoing undone failed"}}},
		"the first step is refused": {[]string{"a", "b", "c"}, []turn{begin, {refusedBy(0), "compensated failed pending pending"}}},
		"canceled while it waits for keys": {[]string{"a", "b", "c"}, []turn{
			{input{kind: canceled}, "compensated pending pending pending"}}},
		"canceled while an attempt is under way": {[]string{"a", "b", "c"}, []turn{begin,
			{ok(0), "running done started pending"}, {input{kind: canceled}, "compensating done started pending"},
			{input{kind: canceled}, "compensating done started pending"},
			{ok(1), "compensating done undoing pending"}, {back(1), "compensating undoing undone pending"}}},
		"canceled while it waits for a reply": {[]string{"a", "b", "c"}, []turn{begin,
			{input{kind: awaits}, "running awaiting pending pending"}, {input{kind: canceled}, "compensating undoing pending pending"},
			{ok(0), "saga: the step takes no reply any more: it has ended, or is being undone"}}},
		"it begins to wait after it was canceled": {[]string{"a", "b", "c"}, []turn{begin,
			{input{kind: canceled}, "compensating started pending pending"}, {input{kind: awaits}, "compensating undoing pending pending"}}},
		"the time limit": {[]string{"a", "b", "c"}, []turn{begin,
			{ok(0), "running done started pending"}, {input{kind: expired}, "compensating done started pending"},
			{input{kind: gaveUp, step: 1, known: true}, "compensating undoing failed pending"}}},
		"no way back after the pivot": {[]string{"a", "B", "c"}, []turn{begin,
			{ok(0), "running done started pending"}, {input{kind: canceled}, ErrPastPivot.Error()}, {input{kind: expired}, "running done started pending"},
			{ok(1), "running done done started"}, {input{kind: undo}, ErrPastPivot.Error()},
			{refusedBy(2), "parked done done started!"}, {input{kind: undo}, ErrPastPivot.Error()},
			{input{kind: resume}, "running done done started"}, {refusedBy(2), "parked done done started!"},
			{input{kind: skip}, "completed done done done"}}},
		"a pivot that is refused is no pivot": {[]string{"a", "B", "c"}, []turn{begin,
			{ok(0), "running done started pending"}, {refusedBy(1), "compensating undoing failed pending"}}},
		"a pivot that may have been done parks": {[]string{"a", "B-", "c"}, []turn{begin,
			{ok(0), "running done started pending"}, {lost(1), "running done started pending"}, {off(1), "parked done started! pending"},
			{input{kind: expired}, "parked done started! pending"}, {input{kind: canceled}, ErrPastPivot.Error()},
			{input{kind: undo}, "compensating undoing failed pending"}}},
		"an operator turns back a pivot that can be undone": {[]string{"a", "B", "c"}, []turn{begin,
			{ok(0), "running done started pending"}, {off(1), "parked done started! pending"}, {input{kind: undo}, "compensating done undoing pending"}}},
		"an undo that is impossible parks": {[]string{"a", "b", "c"}, []turn{begin,
			{ok(0), "running done started pending"}, {ok(1), "running done done started"}, {refusedBy(2), "compensating done undoing failed"},
			{input{kind: resume}, ErrNotParked.Error()},
			{cannot(1), "parked done undoing! failed"}, {input{kind: canceled}, "parked done undoing! failed"},
			{input{kind: resume}, "compensating done undoing failed"}, {cannot(1), "parked done undoing! failed"},
			{input{kind: skip}, "compensating undoing undone failed"}, {cannot(0), "parked undoing! undone failed"},
			{input{kind: drop}, "dropped undoing! undone failed"}, {input{kind: resume}, "saga: the run has ended already: it is dropped"}}},
		"a step that ends the process": {[]string{"a", "b", "c"}, []turn{begin,
			{ok(0), "running done started pending"}, {input{kind: begins, step: 1}, "running done started pending"},
			{input{kind: killed, step: 1}, "parked done started! pending"}, {input{kind: begins, step: 1}, ErrNotAwaiting.Error()},
			{input{kind: resume}, "running done started pending"}, {input{kind: killed, step: 1}, "parked done started! pending"},
			{input{kind: canceled}, "compensating done started pending"}, {off(1), "compensating done undoing pending"},
			{input{kind: begins, step: 1}, "compensating done undoing pending"}, {input{kind: killed, step: 1}, "parked done undoing! pending"},
			{input{kind: skip}, "compensating undoing undone pending"}}},
		"late before it begins": {[]string{"a", "b"}, []turn{{input{kind: granted, late: "late"}, "compensated pending pending"}}},
		"late at the pivot": {[]string{"a", "B"}, []turn{{input{kind: granted}, "running started pending"},
			{input{kind: completed, late: "late"}, "compensating undoing pending"}}},
		"late behind the pivot": {[]string{"A", "b"}, []turn{{input{kind: granted}, "running started pending"},
			{input{kind: completed, late: "late"}, "running done started"}}},
		"late at the end": {[]string{"a"}, []turn{{input{kind: granted}, "running started"}, {input{kind: completed, late: "late"}, "completed done"}}},
		"for good, and it may have been done": {[]string{"a", "b"}, []turn{{input{kind: granted}, "running started pending"},
			{ok(0), "running done started"}, {input{kind: failed, step: 1, final: true}, "compensating done undoing"}}},
		"an early reply to a run that has turned back": {[]string{"a", "b"}, []turn{{input{kind: granted}, "running started pending"},
			{input{kind: canceled}, "compensating started pending"}, {input{kind: early, step: 1, reply: []byte{}}, ErrNotAwaiting.Error()}}},
		"an early reply": {[]string{"a", "b", "c"}, []turn{begin,
			{input{kind: early, step: 0, reply: []byte("x")}, "running started pending pending"},
			{input{kind: early, step: 1, reply: []byte("y")}, "running started pending pending"},
			{ok(0), "running done started pending"},
			{input{kind: early, step: 0, reply: []byte("x")}, ErrNotAwaiting.Error()}}},
	} {
		t.Run(name, func(t *testing.T) {
			p, r := sequence(test.steps...)
			for i, turn := range test.turns {
				before := r.clone()
				if _, err := p.apply(&r, turn.in); err != nil {
					require.EqualError(t, err, turn.want, "turn %d", i)
					require.Equal(t, before, r, "turn %d", i)
					continue
				}
				require.Equal(t, turn.want, stateOf(r), "turn %d", i)
			}
		})
	}
}

// A plain model of a run: a list of what was completed, from which is taken what is
// undone.
type model struct {
	completed []int
	back      bool
}

// TestTransitionsAgainstAModel makes random plans and inputs. It checks what is promised
// of every run, and that from wherever it is it comes to an end if everything succeeds.
func TestTransitionsAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, r := randomPlan(t)
		var m model
		for range rapid.IntRange(0, 40).Draw(t, "inputs") {
			in := input{
				kind: inputKind(rapid.IntRange(0, int(drop)).Draw(t, "kind")), step: rapid.IntRange(0, len(p)-1).Draw(t, "step"),
				known: rapid.Bool().Draw(t, "known"), final: rapid.Bool().Draw(t, "final"), reply: []byte("reply"),
			}
			if rapid.Bool().Draw(t, "late") {
				in.late = "late"
			}
			m.take(t, p, &r, in)
		}
		for n := 0; !r.Status.Ended(); n++ {
			require.Less(t, n, 10*len(p)+10, "it does not end: %s", stateOf(r))
			m.take(t, p, &r, success(t, p, &r))
		}
	})
}

func randomPlan(t *rapid.T) (p plan, r record) {
	n := rapid.IntRange(1, 6).Draw(t, "steps")
	pivot := rapid.IntRange(-1, n-1).Draw(t, "pivot")
	for i := range n {
		s := planStep{pivot: i == pivot, undoes: rapid.Bool().Draw(t, "undoes"), attempts: 2}
		for j := range i {
			must := i == pivot || j == pivot
			if must || rapid.Bool().Draw(t, "after") {
				s.after = append(s.after, j)
			}
		}
		p = append(p, s)
		r.Steps = append(r.Steps, stepRecord{Name: string(rune('a' + i))})
	}
	return p, r
}

// success is the next thing to happen if all goes well.
func success(t require.TestingT, p plan, r *record) input {
	if r.Status == Waiting {
		return input{kind: granted}
	}
	if r.Status == Parked {
		return input{kind: skip}
	}
	for i := range p {
		switch p.due(r, i) {
		case act, await:
			return input{kind: completed, step: i}
		case settle:
			return input{kind: gaveUp, step: i, known: true}
		case takeBack:
			return input{kind: undone, step: i}
		}
	}
	require.Fail(t, "nothing is due", stateOf(*r))
	return input{}
}

func (m *model) take(t require.TestingT, p plan, r *record, in input) {
	was := r.clone()
	changes, err := p.apply(r, in)
	if err != nil {
		require.Equal(t, was, *r)
		require.Empty(t, changes)
		return
	}
	passed := false
	for i := range p {
		before, after := was.Steps[i], r.Steps[i]
		if after.Status == Started && before.Status == Pending {
			for _, j := range p[i].after {
				require.Equal(t, Done, r.Steps[j].Status, "step %d starts before %d is completed", i, j)
			}
			require.False(t, m.back, "a step starts while others are undone")
		}
		passed = passed || p[i].pivot && (before.Status == Done || before.Status == Started || before.Status == Awaiting)
	}
	if r.direction() == Compensating && was.direction() != Compensating {
		m.back = true
		pivot := slices.IndexFunc(p, func(s planStep) bool { return s.pivot })
		if passed {
			require.True(t, r.Steps[pivot].Status == Failed || in.kind == undo && was.Steps[pivot].Parked, "it turns back after the pivot: %s, then %s", stateOf(was), stateOf(*r))
		}
	}
	for _, c := range changes {
		switch c.kind {
		case StepCompleted:
			m.completed = append(m.completed, c.step)
		case UndoStarted, StepCompensated:
			if c.kind == StepCompensated && was.Steps[c.step].Status == Undoing {
				continue // it was taken from the list when its undo began
			}
			if at := slices.Index(m.completed, c.step); at >= 0 { // else it is one that may have been completed
				require.Equal(t, len(m.completed)-1, at, "%d is undone before %v", c.step, m.completed)
				m.completed = m.completed[:at]
			}
		case SagaCompensated:
			require.Empty(t, m.completed)
		}
	}
	parked := slices.ContainsFunc(r.Steps, func(s stepRecord) bool { return s.Parked })
	require.Equal(t, parked, r.Status == Parked || r.Status == Dropped && parked, stateOf(*r))
	undoing := 0
	for _, s := range r.Steps {
		undoing += boolean(s.Status == Undoing)
		if r.Status == Completed {
			assert.Equal(t, Done, s.Status)
		}
		if r.Status == Compensated {
			assert.Contains(t, []StepStatus{Pending, Failed, Undone}, s.Status)
		}
	}
	require.LessOrEqual(t, undoing, 1)
	if r.Status == Running || r.Status == Compensating {
		require.True(t, slices.ContainsFunc(r.Steps, func(s stepRecord) bool {
			return s.Status == Started || s.Status == Awaiting || s.Status == Undoing
		}), "nothing is under way: %s", stateOf(*r))
	}
}

func TestMerge(t *testing.T) {
	for name, test := range map[string][4]string{
		"nobody else":             {`{"a":1}`, `{"a":2}`, `{"a":1}`, `{"a":2}`},
		"different fields":        {`{"a":1,"b":1}`, `{"a":2,"b":1}`, `{"a":1,"b":3}`, `{"a":2,"b":3}`},
		"a field that is removed": {`{"a":1,"b":1}`, `{"b":1}`, `{"a":1,"b":3}`, `{"b":3}`},
		"a field that is added":   {`{}`, `{"a":2}`, `{"b":3}`, `{"a":2,"b":3}`},
		"the same field":          {`{"a":1}`, `{"a":2}`, `{"a":3}`, `{"a":2}`},
		"no object":               {`1`, `2`, `3`, `2`},
		"nothing any more":        {`{"a":1}`, `{"a":2}`, `null`, `{"a":2}`},
	} {
		t.Run(name, func(t *testing.T) {
			assert.JSONEq(t, test[3], string(merge([]byte(test[0]), []byte(test[1]), []byte(test[2]))))
		})
	}
}
