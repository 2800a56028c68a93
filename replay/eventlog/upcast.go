package eventlog

import (
	"errors"
	"fmt"
	"slices"

	"github.com/interlock-go/interlock/internal/contain"
	"github.com/interlock-go/interlock/ordering"
)

// Upcaster turns events of one type into another one when they are read, so that
// whoever reads them knows the newest form alone: what is stored stays as it was
// written. It is usual to have the version of the form in the type, as in
// "order-placed.1".
type Upcaster struct {
	// From is the type of the events that it is for.
	From string
	// To is the type that they become. There may be an upcaster for it again.
	To string
	// Up changes a copy of the event: its Payload and Headers. Its Type is set to To
	// afterwards; its ID and its positions must stay. An error, a panic, or another ID or
	// position makes the entry one that cannot be read.
	Up func(e *ordering.Event) error
}

// upcasters are the upcasters by the type that they are for.
type upcasters map[string]Upcaster

func newUpcasters(list []Upcaster) (upcasters, error) {
	u := upcasters{}
	var problems []error
	for _, one := range list {
		if _, is := u[one.From]; is {
			problems = append(problems, fmt.Errorf("two are for type %q", one.From))
		}
		if one.Up == nil {
			problems = append(problems, fmt.Errorf("that for type %q has no function", one.From))
		}
		u[one.From] = one
	}
	for from := range u {
		at := from
		for range len(u) {
			next, is := u[at]
			if !is {
				break
			}
			at = next.To
		}
		if _, is := u[at]; is {
			problems = append(problems, fmt.Errorf("those from type %q on go round in a circle", from))
		}
	}
	return u, errors.Join(problems...)
}

// apply turns an event, which it may change, into its newest form.
func (u upcasters) apply(e *ordering.Event) error {
	for {
		one, is := u[e.Type]
		if !is {
			return nil
		}
		id, positions := e.ID, slices.Clone(e.Positions)
		err := one.up(e)
		if err == nil && (e.ID != id || !slices.Equal(e.Positions, positions)) {
			err = errors.New("it has changed the ID or the positions: these must stay")
		}
		if err != nil {
			return fmt.Errorf("upcasting from %q to %q: %w", one.From, one.To, err)
		}
		e.Type = one.To
	}
}

func (u Upcaster) up(e *ordering.Event) (err error) {
	defer contain.Recover(&err)
	return u.Up(e)
}
