package backup

import (
	"errors"
	"fmt"
)

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// problems are what is wrong with a configuration.
type problems []error

func (p *problems) add(when bool, text string, args ...any) {
	if when {
		*p = append(*p, fmt.Errorf(text, args...))
	}
}

func (p problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrConfig, errors.Join(p...))
}
