package saga

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/contain"
	"github.com/interlock-go/interlock/internal/settings"
	"github.com/interlock-go/interlock/lockkeys"
)

// Definition describes sagas with a state of type S, which is kept as JSON. It is data:
// nothing of it is replayed, and its functions may change as long as they mean the same
// for runs that are under way. What would mean something else is a new Version.
type Definition[S any] struct {
	// Name and Version identify it. A run has, until its end, the version that was the
	// newest registered one when it started. Name has at most 100 bytes, without
	// spaces and control characters; Version is at least 1.
	Name    string
	Version int
	// Keep adds the keys that a run keeps from its first step to its end: so no other
	// run, and no function of [Coordinator.Do], with conflicting keys comes in between.
	// They are taken at once. It is called by Start. Default: none.
	Keep func(s *S, claim *lockkeys.Claim) error
	// Kept are the keys under which Keep takes keys; see [Roots].
	Kept []lockkeys.Key
	// Timeout is the time from Start after which the run is compensated, if it has not
	// come to its pivot: no further step begins, also if nobody was there when it was over.
	// Default: 0, no bound.
	Timeout time.Duration
	// Steps are the steps, one at least.
	Steps []Step[S]
	// Upgrade, if set, converts the state of active runs whose version is not registered
	// to this one. The steps that such a run has begun must be there, with the same names
	// and meanings.
	Upgrade func(from int, state json.RawMessage) (S, error)
}

// Registered is a definition that is to be registered, see [Register].
type Registered struct{ d *definition }

// Register makes a definition one for [New], which reports its problems. It copies the
// definition: so a variable can be changed into the next version, and registered again.
func Register[S any](d Definition[S]) Registered { return Registered{erase(d)} }

// definition is a [Definition] whose state is JSON.
type definition struct {
	name     string
	version  int
	state    reflect.Type
	kept     Roots
	timeout  time.Duration
	steps    []*step
	plan     plan
	problems settings.Problems

	keep    func(state []byte) ([]lockkeys.Request, error)
	upgrade func(from int, state []byte) ([]byte, error) // or nil
}

func (d *definition) String() string {
	return fmt.Sprintf("definition %s, version %d", d.name, d.version)
}

// step is a [Step] whose state is JSON. Functions that the step does not have are nil.
type step struct {
	name                  string
	under                 Roots
	after                 []string
	pivot                 bool
	maxAttempts           int
	backoff               dispatcher.Backoff
	timeout, replyTimeout time.Duration
	calls                 *bulkhead // or nil
	inTx                  bool      // it has DoTx

	do, undo action
	find     func(ctx context.Context, call Call, state []byte) (Found, error)
	onReply  func(ctx context.Context, tx *sql.Tx, call Call, state, body []byte) ([]byte, error)
	keys     func(state []byte) ([]lockkeys.Request, error)
}

// action does or undoes a step and returns the state afterwards; tx is nil for a remote
// one.
type action func(ctx context.Context, tx *sql.Tx, call Call, state []byte) ([]byte, error)

// with calls a function of the caller's with the state, so that neither a panic nor
// runtime.Goexit ends the caller, and returns the state that it leaves. That counts
// with the error Wait too.
func with[S any](state []byte, f func(s *S) error) (after []byte, err error) {
	err = contain.Apart(func() error {
		var s S
		if err := json.Unmarshal(state, &s); err != nil {
			return dispatcher.Permanent(ownError{fmt.Errorf("saga: state: %w", err)})
		}
		result := f(&s)
		if result != nil && !errors.Is(result, Wait) {
			return result
		}
		var err error
		if after, err = encode(s); err != nil {
			return err
		}
		return result
	})
	return after, err
}

func encode(s any) ([]byte, error) {
	text, err := json.Marshal(s)
	if err == nil && !utf8.Valid(text) { // of a json.RawMessage
		err = errors.New("its JSON is not UTF-8")
	}
	if err != nil {
		return nil, dispatcher.Permanent(ownError{fmt.Errorf("saga: state: %w", err)})
	}
	return text, nil
}

func erase[S any](d Definition[S]) *definition {
	d.Steps = slices.Clone(d.Steps) // the caller may change them for the next version
	e := &definition{
		name: d.Name, version: d.Version, state: reflect.TypeFor[S](), kept: slices.Clone(d.Kept), timeout: d.Timeout,
		keep: func(state []byte) (claim []lockkeys.Request, err error) {
			if d.Keep == nil {
				return nil, nil
			}
			_, err = with(state, func(s *S) (err error) {
				claim, err = derive(func(c *lockkeys.Claim) error { return d.Keep(s, c) })
				return err
			})
			return claim, err
		},
	}
	if d.Upgrade != nil {
		e.upgrade = func(from int, state []byte) (after []byte, err error) {
			err = contain.Apart(func() error {
				s, err := d.Upgrade(from, state)
				if err == nil {
					after, err = encode(s)
				}
				return err
			})
			return after, err
		}
	}
	for i := range d.Steps {
		e.steps = append(e.steps, eraseStep(&d.Steps[i]))
		e.checkStep(e.steps[i], d.Steps[i].DoTx != nil, d.Steps[i].Do != nil, d.Steps[i].UndoTx != nil,
			d.Steps[i].Undo != nil || d.Steps[i].Find != nil)
		e.problems.Add(d.Steps[i].MaxCalls < 0, "%v, step %.80q: MaxCalls is %d: it must be positive, or 0 for no bound", e, d.Steps[i].Name, d.Steps[i].MaxCalls)
	}
	e.check()
	e.order()
	return e
}

func eraseStep[S any](s *Step[S]) *step {
	e := &step{
		name: s.Name, under: slices.Clone(s.Under), after: s.After, pivot: s.Pivot, inTx: s.DoTx != nil,
		maxAttempts: s.MaxAttempts, backoff: s.Backoff.WithDefaults(100*time.Millisecond, 30*time.Second), timeout: s.Timeout, replyTimeout: s.ReplyTimeout,
		keys: func(state []byte) (claim []lockkeys.Request, err error) {
			if s.Keys == nil {
				return nil, nil
			}
			_, err = with(state, func(v *S) (err error) {
				claim, err = derive(func(c *lockkeys.Claim) error { return s.Keys(v, c) })
				return err
			})
			return claim, err
		},
		onReply: func(ctx context.Context, tx *sql.Tx, call Call, state, body []byte) ([]byte, error) {
			if s.OnReply == nil {
				return state, nil
			}
			return with(state, func(v *S) error { return s.OnReply(ctx, tx, call, v, body) })
		},
	}
	settings.Default(&e.maxAttempts, 5)
	settings.Default(&e.timeout, 30*time.Second)
	if s.MaxCalls > 0 {
		e.calls = &bulkhead{}
		e.calls.mu.free = s.MaxCalls
	}
	inTx := func(f func(ctx context.Context, tx *sql.Tx, call Call, s *S) error) action {
		if f == nil {
			return nil
		}
		return func(ctx context.Context, tx *sql.Tx, call Call, state []byte) ([]byte, error) {
			return with(state, func(v *S) error { return f(ctx, tx, call, v) })
		}
	}
	remote := func(f func(ctx context.Context, call Call, s *S) error) action {
		if f == nil {
			return nil
		}
		return func(ctx context.Context, _ *sql.Tx, call Call, state []byte) ([]byte, error) {
			return with(state, func(v *S) error { return f(ctx, call, v) })
		}
	}
	if e.inTx {
		e.do, e.undo = inTx(s.DoTx), inTx(s.UndoTx)
		return e
	}
	e.do, e.undo = remote(s.Do), remote(s.Undo)
	if s.Find != nil {
		e.find = func(ctx context.Context, call Call, state []byte) (found Found, err error) {
			_, err = with(state, func(v *S) (err error) {
				found, err = s.Find(ctx, call, v)
				return err
			})
			return found, err
		}
	}
	return e
}

func isName(name string, more string) bool {
	return name != "" && len(name) <= 100 && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r == 0x7f || r == '\uFFFD' || strings.ContainsRune(more, r)
	})
}

// check finds the problems that are not those of a single step.
func (d *definition) check() {
	p := &d.problems
	p.Add(!isName(d.name, ""), "definition %.80q: Name must have 1 to 100 bytes, without spaces and control characters", d.name)
	p.Add(d.version < 1, "%v: Version must be at least 1", d)
	p.Add(d.timeout < 0, "%v: Timeout is %v: it must not be negative", d, d.timeout)
	p.Add(len(d.steps) == 0, "%v has no steps: add one", d)
}

func (d *definition) checkStep(s *step, inTx, remote, undoTx, remoteOnly bool) {
	p := &d.problems
	where := fmt.Sprintf("%v, step %.80q", d, s.name)
	p.Add(!isName(s.name, "/"), "%s: Name must have 1 to 100 bytes, without spaces, control characters and /", where)
	p.Add(inTx == remote, "%s: one of DoTx and Do must be set", where)
	p.Add(inTx && remoteOnly, "%s: Undo and Find belong to Do: with DoTx, set UndoTx", where)
	p.Add(remote && undoTx, "%s: UndoTx belongs to DoTx: with Do, set Undo", where)
	p.Add(s.maxAttempts < 1, "%s: MaxAttempts is %d: it must be at least 1", where, s.maxAttempts)
	p.Add(s.timeout < 0 || s.replyTimeout < 0, "%s: time limits must not be negative", where)
	wrong := s.backoff.Validate()
	p.Add(wrong != nil, "%s: %w", where, wrong)
}

// order makes the plan.
func (d *definition) order() {
	names := map[string]int{}
	for i, s := range d.steps {
		if _, twice := names[s.name]; twice {
			d.problems.Add(true, "%v: two steps are called %.80q", d, s.name)
		}
		names[s.name] = i
	}
	before := make([]map[int]bool, len(d.steps)) // all that come before a step
	pivot := -1
	for i, s := range d.steps {
		p := planStep{pivot: s.pivot, undoes: s.undo != nil, attempts: s.maxAttempts}
		if s.after == nil && i > 0 {
			p.after = []int{i - 1}
		}
		for _, name := range s.after {
			j, ok := names[name]
			d.problems.Add(!ok || j >= i, "%v, step %.80q: After names %.80q, which is no step before it in the list", d, s.name, name)
			if ok && j < i {
				p.after = append(p.after, j)
			}
		}
		before[i] = map[int]bool{}
		for _, j := range p.after {
			before[i][j] = true
			for k := range before[j] {
				before[i][k] = true
			}
		}
		d.problems.Add(s.pivot && len(before[i]) < i, "%v: step %.80q is the pivot, and not all steps before it in the list come before it: name them in After", d, s.name)
		d.problems.Add(pivot >= 0 && !before[i][pivot], "%v: step %.80q does not come after the pivot, which is before it in the list: name it in After", d, s.name)
		if s.pivot {
			d.problems.Add(pivot >= 0, "%v has two pivots: the first one is enough", d)
			pivot = i
		}
		d.plan = append(d.plan, p)
	}
}

// merge returns the state after a step that has changed base to after, while others have
// changed base to current: what the step has changed of its top-level fields counts.
func merge(base, after, current []byte) []byte {
	if bytes.Equal(base, current) || bytes.Equal(after, current) {
		return after
	}
	var was, is, now map[string]json.RawMessage
	if json.Unmarshal(base, &was) != nil || json.Unmarshal(after, &is) != nil || json.Unmarshal(current, &now) != nil || now == nil {
		return after // it is no object, or null
	}
	for name, value := range is {
		if !bytes.Equal(was[name], value) {
			now[name] = value
		}
	}
	for name := range was {
		if _, still := is[name]; !still {
			delete(now, name)
		}
	}
	merged, err := json.Marshal(now)
	if err != nil {
		return after // it was valid before
	}
	return merged
}

// find returns the index of a step, or -1.
func (d *definition) find(name string) int {
	return slices.IndexFunc(d.steps, func(s *step) bool { return s.name == name })
}
