package lockkeys

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The five ways in which a claim can use the node "a". The requests below it
// are for keys of the claim's own, so that claims only meet at "a".
var queueKinds = []struct {
	name  string
	claim func(own string) *Claim
}{
	{"IS", func(own string) *Claim { return NewClaim(Request{Must("a", own), Shared}) }},
	{"IX", func(own string) *Claim { return NewClaim(Request{Must("a", own), Exclusive}) }},
	{"S", func(string) *Claim { return NewClaim(Request{Must("a"), Shared}) }},
	{"SIX", func(own string) *Claim {
		return NewClaim(Request{Must("a"), Shared}, Request{Must("a", own), Exclusive})
	}},
	{"X", func(string) *Claim { return NewClaim(Request{Must("a"), Exclusive}) }},
}

// queue is one queue at "a", with the results that the conflict rule requires.
type queue struct {
	set    *Set[int]
	claims []*Claim
	kinds  []int
	places []Place[int]
	gone   []bool
}

// granted reports whether nothing earlier conflicts with claim i.
func (q *queue) granted(i int) bool {
	for j := range i {
		if !q.gone[j] && queueConflicts[q.kinds[j]][q.kinds[i]] {
			return false
		}
	}
	return true
}

var queueConflicts = func() (table [5][5]bool) {
	for i, a := range queueKinds {
		for j, b := range queueKinds {
			table[i][j] = a.claim("1").Conflicts(b.claim("2"))
		}
	}
	return table
}()

func (q *queue) remove(t *testing.T, i int) {
	var want, got []int
	for j := range q.places {
		if !q.gone[j] && j != i && !q.granted(j) {
			want = append(want, j)
		}
	}
	for _, p := range q.set.Remove(&q.places[i], nil) {
		got = append(got, p.Owner)
	}
	q.gone[i] = true
	want = slices.DeleteFunc(want, func(j int) bool { return !q.granted(j) })
	slices.Sort(got)
	if !slices.Equal(want, got) {
		require.Equal(t, want, got, "granted by removing %d of %v", i, q)
	}
	for j := range q.places {
		if !q.gone[j] && q.places[j].Granted() != q.granted(j) {
			require.Equal(t, q.granted(j), q.places[j].Granted(), "%d of %v", j, q)
		}
	}
}

// check compares the results of Blocker and All with the rule.
func (q *queue) check(t *testing.T) {
	at := -1
	for r, p := range q.set.All() {
		if r.Key.Depth() == 1 {
			if p.Owner <= at {
				require.Greater(t, p.Owner, at, "All yields requests for one key in order of arrival: %v", q)
			}
			at = p.Owner
		}
	}
	for i := range q.places {
		if q.gone[i] || q.granted(i) {
			continue
		}
		request, by, blocked := q.set.Blocker(&q.places[i])
		if !blocked || by.Owner >= i || !q.claims[i].Conflicts(NewClaim(request)) ||
			!slices.Contains(q.claims[by.Owner].Requests(), request) {
			require.Fail(t, "wrong blocker", "%v of %d of %v", request, i, q)
		}
	}
}

func (q *queue) String() string {
	text := ""
	for i, k := range q.kinds {
		text += queueKinds[k].name
		if q.gone[i] {
			text += "(gone)"
		}
		text += " "
	}
	return text
}

// Every queue of five claims at one node, from which any two are removed, in
// both orders, granted or waiting; the others end in the order of arrival. This
// covers every withdrawal from the middle of a queue.
func TestSetEveryQueue(t *testing.T) {
	const length = 5
	var set Set[int]
	for n := range 5 * 5 * 5 * 5 * 5 {
		for first := range length {
			for second := range length {
				if first == second {
					continue
				}
				q := queue{set: &set, places: make([]Place[int], length), gone: make([]bool, length)}
				for i, rest := 0, n; i < length; i, rest = i+1, rest/5 {
					q.kinds = append(q.kinds, rest%5)
					q.claims = append(q.claims, queueKinds[rest%5].claim(fmt.Sprint(i)))
					q.places[i].Owner = i
					if q.set.Add(&q.places[i], q.claims[i]) != q.granted(i) {
						require.Equal(t, q.granted(i), q.places[i].Granted(), "%d of %v", i, &q)
					}
				}
				q.remove(t, first)
				q.check(t)
				q.remove(t, second)
				q.check(t)
				for i := range length {
					if !q.gone[i] {
						q.remove(t, i)
					}
				}
				if set.used != 0 || set.Len() != 0 {
					require.Fail(t, "the set is not empty", "%v", &q)
				}
			}
		}
	}
}
