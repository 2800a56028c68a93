// Package settings fills in the defaults of configurations, and gathers what is
// wrong with them.
package settings

import (
	"errors"
	"fmt"
)

// Default sets a field that has its zero value.
func Default[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Problems are what is wrong with a configuration.
type Problems []error

// Add adds a problem, if there is one; text and args are those of
// [fmt.Errorf].
func (p *Problems) Add(when bool, text string, args ...any) {
	if when {
		*p = append(*p, fmt.Errorf(text, args...))
	}
}

// Err returns nil if nothing is wrong, and otherwise an error that names every
// problem, one a line, and wraps them and kind.
func (p Problems) Err(kind error) error {
	if len(p) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", kind, errors.Join(p...))
}
