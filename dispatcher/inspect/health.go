package inspect

import (
	"fmt"
	"time"

	"github.com/interlock-go/interlock/dispatcher/view"
)

// State is how a source does.
type State string

// States, the worst last.
const (
	Healthy   State = "healthy"
	Attention State = "attention" // an operator should look: see the reasons
	Stalled   State = "stalled"   // something waits, and nothing moves
	Stopped   State = "stopped"   // it does not work any more
	Unknown   State = "unknown"   // it cannot be looked at
)

// Health is how a source does, and why.
type Health struct {
	State   State    `json:"state"`
	Reasons []string `json:"reasons,omitempty"`
}

// health judges a view.
func (w *watched) health(seen *Seen, stalledAfter time.Duration) Health {
	h := Health{State: Healthy, Reasons: append([]string(nil), seen.Problems...)}
	if len(h.Reasons) > 0 {
		h.State = Attention
	}
	still := seen.At.Sub(w.since)
	switch {
	case seen.Err != "":
		return Health{Unknown, []string{seen.Err}}
	case seen.Stopped:
		h.State = Stopped
	case seen.Waits > 0 && seen.Moved == w.moved && still >= stalledAfter:
		h.State = Stalled
		reason := fmt.Sprintf("%d wait, and nothing has begun or ended for %s", seen.Waits, short(still))
		if m := longest(seen.Messages); m != nil {
			reason += fmt.Sprintf("; %s, %s since %s, is the oldest that holds its keys", title(*m), m.State, ago(seen.At, m.Since))
		}
		h.Reasons = append([]string{reason}, h.Reasons...)
	}
	return h
}

// longest returns the oldest message that holds its keys, or nil.
func longest(list []view.Message) *view.Message {
	for i, m := range list {
		if m.State != stateWaiting && m.State != stateParked {
			return &list[i]
		}
	}
	return nil
}

// short returns a duration as an operator reads it.
func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", max(d, 0).Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// ago returns how long ago a time was.
func ago(now, since time.Time) string {
	if since.IsZero() {
		return "an unknown time"
	}
	return short(now.Sub(since))
}
