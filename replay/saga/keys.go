package saga

import (
	"fmt"

	"github.com/interlock-go/interlock/lockkeys"
)

// Roots are the keys under which steps take keys, by [Step].Under, of all definitions of
// a coordinator. They divide all keys into two levels: those under a root, the keys of
// steps, and all others, among them those that runs keep.
//
// # Invariant
//
// No claim has keys of both levels. The claim that a run keeps has none under a root,
// nor one that contains a root; the claim of a step has nothing else than keys under
// its roots; and that of [Coordinator.Do] is of the one kind or of the other. This is
// checked when definitions are registered, for their roots, and whenever a claim is
// made.
//
// # Why sagas cannot deadlock
//
// The dispatcher grants each claim in one step, so a message that waits holds nothing,
// and it waits only for messages accepted before it. But a run is more than a message:
// it holds what it keeps while it waits for its steps, and these wait for their keys.
//
//  1. A message of the level of steps waits only for messages of that level, since
//     claims of different levels never conflict, whether granted or waiting. What has
//     its claim, an attempt, a pause before the next one, a wait for a reply or a turn
//     at a bulkhead, or a function of Do, waits for no key; who has a turn at a bulkhead
//     calls, and waits for nothing of the coordinator. So by induction on the order of
//     acceptance every such message gets its keys, as those before it end.
//  2. A message of the other level waits only for runs and functions that were accepted
//     before it. A run waits for its steps, which by 1 get their keys, and for nothing
//     else. So by the same induction every run gets its keys.
//
// What has its keys may still last: until a reply comes, or an operator decides about
// a parked run. Then the others wait for that, and not for each other.
//
// A common level would not do, even if claims were always granted in order: a run that
// keeps a, whose step wants b, waits for a claim of a and b that came before the step,
// and that waits for the run. To widen the claim of the run instead is no way out
// either: a message that widens holds nothing meanwhile, so others would see the saga
// half done.
type Roots []lockkeys.Key

// under reports whether a key is under a root.
func (r Roots) under(key lockkeys.Key) bool {
	for _, root := range r {
		if root.Contains(key) {
			return true
		}
	}
	return false
}

// touches reports whether a key is under a root, or contains one.
func (r Roots) touches(key lockkeys.Key) bool {
	for _, root := range r {
		if root.Contains(key) || key.Contains(root) {
			return true
		}
	}
	return false
}

// checkKept returns an error for a claim that a run, of a definition that keeps keys
// under kept, must not keep.
func (r Roots) checkKept(where string, kept Roots, claim []lockkeys.Request) error {
	for _, q := range claim {
		switch {
		case !kept.under(q.Key):
			return &KeysError{where, q.Key, "is under none of the keys in Kept of the definition: add one"}
		case r.touches(q.Key):
			return &KeysError{where, q.Key, "is where steps take keys, see Step.Under: keep keys elsewhere"}
		}
	}
	return nil
}

// checkStep returns an error for a claim that a step, which takes keys under own, must
// not take.
func (Roots) checkStep(where string, own Roots, claim []lockkeys.Request) error {
	for _, q := range claim {
		if !own.under(q.Key) {
			return &KeysError{where, q.Key, "is under none of the keys in Under of the step: add one, under which no saga keeps keys"}
		}
	}
	return nil
}

// checkMixed returns an error for a claim of both levels.
func (r Roots) checkMixed(where string, claim []lockkeys.Request) error {
	var steps bool
	for _, q := range claim {
		steps = steps || r.touches(q.Key)
	}
	for _, q := range claim {
		if steps && !r.under(q.Key) {
			return &KeysError{where, q.Key, "goes together with a key of steps, see Step.Under: a claim has keys of steps, or others, but not both"}
		}
	}
	return nil
}

// rootsOf returns the roots of all steps, and the problems of what definitions keep.
func rootsOf(definitions []*definition) (roots Roots, problems []error) {
	for _, d := range definitions {
		for _, s := range d.steps {
			roots = append(roots, s.under...)
		}
	}
	for _, d := range definitions {
		for _, key := range d.kept {
			for _, other := range definitions {
				for _, s := range other.steps {
					if s.under.touches(key) {
						problems = append(problems, &KeysError{d.String(), key, fmt.Sprintf(
							"is kept, and step %s of %s takes keys there: a step takes keys only where no saga keeps any, since it waits for them while its run holds what it keeps",
							s.name, other)})
					}
				}
			}
		}
	}
	return roots, problems
}

// derive calls a function of the caller's that adds keys to a claim.
func derive(add func(claim *lockkeys.Claim) error) ([]lockkeys.Request, error) {
	claim := lockkeys.NewClaim()
	if err := add(claim); err != nil {
		return nil, err
	}
	return append([]lockkeys.Request(nil), claim.Requests()...), nil
}
