// Package health says whether a service does its work, for load balancers, orchestrators and
// alarms: whether it lives, is ready, or is stalled, and why.
//
//	monitor, err := health.New(health.Config{
//		Checks:  []health.Check{{Name: "broker", Check: func(context.Context) error { return consumer.Ready() }}},
//		Sources: []health.Source{{Name: "payments", Source: sequencer}},
//	})
//	...
//	mux.Handle("/livez", monitor.Live())
//	mux.Handle("/readyz", monitor.Ready())
//	mux.Handle("/stalledz", monitor.Stalled())
//
// A service is ready if it can do its work: its checks succeed and nothing has stopped. It is
// stalled if something waits, and nothing has begun or ended for a while, which a check cannot
// find: a handler that does not return, for example. A stalled service still answers, so
// neither its readiness nor its liveness says so: whether to restart it is for a person to
// decide, by the reasons. Messages behind a parked one, which wait for an operator, do not
// count.
package health

import (
	"fmt"
	"time"

	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/internal/human"
)

// State is how a [view.Source] does.
type State string

// States, the worst last.
const (
	Healthy   State = "healthy"
	Attention State = "attention" // an operator should look: see the reasons
	Stalled   State = "stalled"   // something waits, and nothing moves
	Stopped   State = "stopped"   // it does not work any more
	Unknown   State = "unknown"   // it cannot be looked at
)

// Health is how a [view.Source] does, and why.
type Health struct {
	State   State    `json:"state"`
	Reasons []string `json:"reasons,omitempty"`
}

// Works reports whether nobody has to do anything for the source to go on.
func (h Health) Works() bool { return h.State == Healthy || h.State == Attention }

// Judge judges the views of one source: it remembers since when nothing has moved. The zero
// Judge is ready for use, by one goroutine at a time.
type Judge struct {
	moved uint64
	since time.Time // when moved changed, or nothing waited
}

// Note adds what was seen of the source at a time.
func (j *Judge) Note(at time.Time, v view.View) {
	if j.since.IsZero() || v.Moved != j.moved || v.Waits == 0 {
		j.moved, j.since = v.Moved, at
	}
}

// Health judges what is seen at a time, after it was noted. The source is stalled if
// something waits, and nothing has moved for stalledAfter.
func (j *Judge) Health(at time.Time, v view.View, stalledAfter time.Duration) Health {
	h := Health{State: Healthy, Reasons: append([]string(nil), v.Problems...)}
	if len(h.Reasons) > 0 {
		h.State = Attention
	}
	still := at.Sub(j.since)
	switch {
	case v.Stopped:
		h.State = Stopped
	case v.Waits > 0 && v.Moved == j.moved && still >= stalledAfter:
		h.State = Stalled
		reason := fmt.Sprintf("%d wait, and nothing has begun or ended for %s", v.Waits, human.Duration(still))
		if m := oldest(v.Messages); m != nil {
			reason += fmt.Sprintf("; %s, %s since %s, is the oldest that holds its keys", m.Title(), m.State, human.Since(at, m.Since))
		}
		h.Reasons = append([]string{reason}, h.Reasons...)
	}
	return h
}

// oldest returns the oldest message that holds its keys, or nil.
func oldest(list []view.Message) *view.Message {
	for i, m := range list {
		if m.State != "waiting" && m.State != "parked" {
			return &list[i]
		}
	}
	return nil
}
