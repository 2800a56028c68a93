package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/dispatcher/health"
	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/internal/contain"
)

// source is what the inspector knows of one [Named].
type source struct {
	Named
	config Config
	over   context.Context // of the inspector

	// looking has an element while the source is looked at, so that all who ask meanwhile
	// share what is seen.
	looking chan struct{}
	// The rest is guarded by looking too.
	seen    map[view.Query]*Seen // few, the fresh ones
	watched watched
}

// watched is what is known from having looked before.
type watched struct {
	judge   health.Judge
	running map[uint64]time.Time // messages that run, and when that was seen first
	hot     hotKeys
}

// Seen is a view of a source with what can be said about it. It is not changed.
type Seen struct {
	view.View
	Name   string        `json:"name"`
	At     time.Time     `json:"at"`
	Health health.Health `json:"health"`
	Hot    []HotKey      `json:"hot,omitempty"`
	Err    string        `json:"error,omitempty"` // the source could not be looked at

	took time.Duration // to look

	others others // messages that those of the view may wait for
}

// others has messages by their IDs.
type others map[uint64]view.Message

// fresh reports whether another look would be too early: so that a source is not looked at
// more than a twentieth of the time, unless that would be less than once in freshAtMost.
func (s *Seen) fresh(now time.Time) bool {
	return now.Sub(s.At) < min(max(freshFor, 20*s.took), freshAtMost)
}

func newSource(over context.Context, named Named, config Config) *source {
	return &source{Named: named, config: config, over: over, looking: make(chan struct{}, 1), seen: map[view.Query]*Seen{}}
}

// maxSeen bounds the queries for which views are kept.
const maxSeen = 64

// look returns what was just seen, or looks: for all who ask, so that it does not end with
// the request of one of them.
func (s *source) look(q view.Query) *Seen {
	if q.Limit == 0 {
		q.Limit = s.config.Limit
	}
	s.looking <- struct{}{}
	defer func() { <-s.looking }()
	now := time.Now()
	if last := s.seen[q]; last != nil && last.fresh(now) {
		return last
	}
	v, err := s.view(q)
	seen := &Seen{View: v, Name: s.Name, At: now, took: time.Since(now)}
	if err != nil {
		seen.Err = s.config.Redact(contain.Text(err))
	}
	s.clean(seen)
	if q == (view.Query{Limit: s.config.Limit}) {
		s.watched.note(seen)
	}
	s.watched.addTo(seen, s.config.StalledAfter)
	if len(s.seen) >= maxSeen {
		for old, last := range s.seen {
			if !last.fresh(now) || len(s.seen) >= maxSeen {
				delete(s.seen, old)
			}
		}
	}
	s.seen[q] = seen
	return seen
}

// view looks at the source; a panic there is an error.
func (s *source) view(q view.Query) (v view.View, err error) {
	ctx, cancel := context.WithTimeout(s.over, lookAtMost)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("looking at it panicked: %v", r)
		}
	}()
	return s.Source.View(ctx, q)
}

// clean leaves nothing in a view that must not be shown.
func (s *source) clean(seen *Seen) {
	for i := range seen.Messages {
		m := &seen.Messages[i]
		shown := ""
		if s.config.Show != nil && m.State == stateParked { // no other payload is shown
			shown = readable(s.config.Show(s.Name, m.Payload))
		}
		m.Payload = shown
		m.Name, m.Err = s.config.Redact(m.Name), s.config.Redact(m.Err)
	}
	for i := range seen.Problems {
		seen.Problems[i] = s.config.Redact(seen.Problems[i])
	}
	for _, t := range seen.Tables {
		for _, row := range t.Rows {
			for i := range row.Cells {
				row.Cells[i] = s.config.Redact(row.Cells[i])
			}
		}
	}
}

// note adds what a view of everything shows to what is known.
func (w *watched) note(seen *Seen) {
	if seen.Err != "" {
		return
	}
	w.judge.Note(seen.At, seen.View)
	running := make(map[uint64]time.Time, len(w.running))
	for _, m := range seen.Messages {
		if m.State == stateRunning || m.State == stateReady {
			first, was := w.running[m.ID]
			if !was {
				first = seen.At
			}
			running[m.ID] = first
		}
	}
	w.running = running
	w.hot.note(seen)
}

// addTo adds what is known to a view.
func (w *watched) addTo(seen *Seen, stalledAfter time.Duration) {
	for i := range seen.Messages {
		if m := &seen.Messages[i]; m.Since.IsZero() {
			m.Since = w.running[m.ID]
		}
	}
	behind(seen.Messages)
	seen.others = make(others, len(seen.Messages))
	for _, m := range seen.Messages {
		seen.others[m.ID] = m
	}
	seen.Hot = w.hot.list(seen)
	if seen.Err != "" {
		seen.Health = health.Health{State: health.Unknown, Reasons: []string{seen.Err}}
	} else {
		seen.Health = w.judge.Health(seen.At, seen.View, stalledAfter)
	}
}

// The states of messages that the page treats in their own ways.
const (
	stateWaiting = "waiting"
	stateReady   = "ready"
	stateRunning = "running"
	stateBackoff = "backoff"
	stateHeld    = "held"
	stateParked  = "parked"
)

// behind counts, for messages of which that is not known, those in the list that wait for
// them, directly or not. The list is in the order of arrival, and messages wait for earlier
// ones, unless these have asked for more keys since: then the count is too small.
func behind(list []view.Message) {
	counted := make(map[uint64]int, len(list))
	for i := len(list) - 1; i >= 0; i-- {
		m := &list[i]
		if m.Blocker != 0 {
			counted[m.Blocker] += 1 + counted[m.ID]
		}
		m.Behind = max(m.Behind, counted[m.ID])
	}
}
