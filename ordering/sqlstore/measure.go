package sqlstore

import (
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/dispatcher/view"
)

// Measure has tell called for the transactions that the store commits from now on; with nil,
// for none. It may be called by several goroutines at once, and on SQLite all writes wait for
// it: it must return at once, must not panic, and must not call the store. Package telemetry
// has one. Without it nothing is measured.
func (s *Store) Measure(tell func(view.Commit)) {
	if tell == nil {
		s.measured.to.Store(nil)
		return
	}
	s.measured.to.Store(&tell)
}

// measured tells of commits, if somebody wants to know.
type measured struct {
	to atomic.Pointer[func(view.Commit)]
}

// begin returns when a COMMIT begins; the zero time if nobody wants to know.
func (m *measured) begin() (at time.Time) {
	if m.to.Load() != nil {
		at = time.Now()
	}
	return at
}

// end tells of a commit that began then.
func (m *measured) end(began time.Time, events int) {
	if tell := m.to.Load(); tell != nil && !began.IsZero() {
		(*tell)(view.Commit{Events: events, Took: time.Since(began)})
	}
}
