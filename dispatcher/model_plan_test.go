package dispatcher_test

import (
	"time"

	"pgregory.net/rapid"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// plan is all that is random about one run of the model test, drawn before
// it, so that a run can be repeated and made smaller.
type plan struct {
	workers, batch, attempts        int // batch is 0 for a plain Handler
	policy                          dispatcher.Policy
	failure                         dispatcher.FailurePolicy
	maxParked, maxPending, observed int
	messages                        []planned
	operator                        []int // what the operator does next
	shutdown                        int   // at this tick; 0 for none
	limit                           time.Duration
	chain                           bool // messages run in chains of up to batch
	commitFails                     int  // each of these fails to commit; 0 for none
	chainTime                       time.Duration
}

type planned struct {
	keys     []lockkeys.Request
	gap      time.Duration // before it is submitted
	keyFails bool
	buried   bool   // if it fails: dead-lettered, and not parked
	steps    []step // one for each attempt; afterwards it succeeds
}

// step is what one attempt does.
type step struct {
	kind    stepKind
	release int // the index of a key to give back first; -1 for none
	before  time.Duration
	after   time.Duration
	obeys   bool // it returns when its context ends
	holds   bool // it calls Hold, and its message is held before it ends as kind says
	held    time.Duration
	widen   []lockkeys.Request
}

type stepKind int

const (
	succeeds stepKind = iota
	fails
	failsForGood
	panics
	exits
	widens
)

var planKeys = []string{"a", "a/b", "a/b/c", "a/d", "b", "b/x", "c", "/", "~a", "~a/b", "~b/x", "~c", "~/"}

func drawKeys(t *rapid.T, least, most int) []lockkeys.Request {
	var keys []string
	for range rapid.IntRange(least, most).Draw(t, "keys") {
		keys = append(keys, rapid.SampledFrom(planKeys).Draw(t, "key"))
	}
	return requests(keys...)
}

func drawTicks(t *rapid.T, most int, label string) time.Duration {
	return time.Duration(rapid.IntRange(0, most).Draw(t, label)) * tick
}

// tick is the step of time in a run; events fall on the same instants often.
const tick = time.Millisecond

// variant says which parts of the plan may be used.
type variant struct{ batch, chain, park, shutdown bool }

func drawPlan(t *rapid.T, v variant) plan {
	p := plan{
		workers:    rapid.IntRange(1, 4).Draw(t, "workers"),
		attempts:   rapid.IntRange(1, 3).Draw(t, "attempts"),
		policy:     dispatcher.LookAhead(rapid.SampledFrom([]int{0, 1, 3, 4096}).Draw(t, "window")),
		maxParked:  rapid.SampledFrom([]int{1, 3, 1 << 16}).Draw(t, "max parked"),
		maxPending: rapid.SampledFrom([]int{1, 3, 1 << 16}).Draw(t, "max pending"),
		observed:   rapid.IntRange(0, 1).Draw(t, "observed"),
	}
	buried := rapid.Bool()
	if !v.park {
		buried = rapid.Just(true)
	}
	if v.batch || v.chain {
		p.batch = rapid.IntRange(1, 4).Draw(t, "batch")
	}
	if v.chain {
		p.chain = true
		p.commitFails = rapid.SampledFrom([]int{0, 2, 5}).Draw(t, "each of these commits fails")
		p.chainTime = drawTicks(t, 4, "chain time") + 1
	}
	if v.park {
		p.failure = dispatcher.Park
		p.operator = rapid.SliceOfN(rapid.IntRange(0, 1000), 0, 30).Draw(t, "operator")
	}
	if v.shutdown {
		p.shutdown = rapid.IntRange(1, 20).Draw(t, "shutdown at")
		p.limit = drawTicks(t, 8, "limit")
	}
	for range rapid.IntRange(1, 25).Draw(t, "messages") {
		m := planned{
			keys:     drawKeys(t, 0, 4),
			gap:      max(drawTicks(t, 6, "gap")-4*tick, 0),
			buried:   buried.Draw(t, "buried"),
			keyFails: rapid.IntRange(0, 19).Draw(t, "key function fails") == 19,
		}
		if (v.batch || v.chain) && rapid.Bool().Draw(t, "batchable") {
			m.keys = requests(rapid.SampledFrom([]string{"a", "a/b", "b"}).Draw(t, "only key"))
		}
		for range rapid.IntRange(0, 4).Draw(t, "steps") {
			m.steps = append(m.steps, drawStep(t, v))
		}
		p.messages = append(p.messages, m)
	}
	return p
}

func drawStep(t *rapid.T, v variant) step {
	kinds := []stepKind{succeeds, succeeds, fails, failsForGood, widens}
	if !v.batch {
		kinds = append(kinds, panics, exits)
	}
	s := step{
		kind:    rapid.SampledFrom(kinds).Draw(t, "kind"),
		release: -1,
		before:  drawTicks(t, 3, "before"),
		obeys:   rapid.Bool().Draw(t, "obeys"),
	}
	if !v.batch && s.kind != panics && s.kind != exits && rapid.IntRange(0, 3).Draw(t, "holds") == 0 {
		s.holds, s.held = true, drawTicks(t, 4, "held")
	}
	if s.kind == widens {
		s.widen = drawKeys(t, 1, 2)
	}
	if !v.batch && rapid.IntRange(0, 4).Draw(t, "releases") == 0 {
		s.release = rapid.IntRange(0, 3).Draw(t, "release")
		s.after = drawTicks(t, 3, "after")
	}
	return s
}
