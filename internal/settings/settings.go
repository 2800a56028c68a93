// Package settings sets the defaults of configurations, and collects their
// problems.
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

// Problems collects the problems of a configuration.
type Problems []error

// Add adds a problem, if there is one; text and args are those of
// [fmt.Errorf].
func (p *Problems) Add(when bool, text string, args ...any) {
	if when {
		*p = append(*p, fmt.Errorf(text, args...))
	}
}

// Err returns nil if there are no problems, and otherwise an error that names all
// of them, one per line, and wraps them and kind.
func (p Problems) Err(kind error) error {
	if len(p) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", kind, errors.Join(p...))
}
