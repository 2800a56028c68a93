package ordering

import "github.com/interlock-go/interlock/ordering/internal/core"

// Span is a range of places, see [Position.Place], From to To, both ends included.
type Span = core.Span

// Spans is a set of places: spans in ascending order that neither overlap nor
// touch. The zero Spans is empty. Contains reports whether a place is in the
// set. Add returns the set with a span added, and may change the old one.
// Absorb returns the first place from n on that is not in the set, and the set
// without the places before it. Without returns the parts of a span that are
// not in the set.
type Spans = core.Spans
