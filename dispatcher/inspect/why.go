package inspect

import (
	"fmt"
	"strings"
	"time"

	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/internal/human"
)

// why says why a message is where it is. The others are those it waits for, directly or
// not, among others.
func why(now time.Time, m view.Message, all others) string {
	var b strings.Builder
	told := m // whose error is told
	if m.State == stateWaiting {
		fmt.Fprintf(&b, "%s has waited %s", m.Title(), human.Since(now, m.Since))
		blocker, found := all[m.Blocker]
		switch {
		case !found && m.Blocker != 0:
			fmt.Fprintf(&b, " for message %d, which holds %s", m.Blocker, requestText(m.Blocks))
		case !found:
		case blocker.State == stateWaiting:
			told = all.last(blocker)
			fmt.Fprintf(&b, " for %s, which is before it on %s and waits too; in front of all is %s (%s)",
				blocker.Title(), requestText(m.Blocks), told.Title(), status(now, told))
		default:
			told = blocker
			fmt.Fprintf(&b, " for %s (%s), which holds %s", blocker.Title(), status(now, blocker), requestText(m.Blocks))
		}
	} else {
		fmt.Fprintf(&b, "%s (%s) holds %s", m.Title(), status(now, m), claimText(m.Claim))
	}
	switch {
	case m.Behind == 1:
		b.WriteString("; behind it is 1")
	case m.Behind > 1:
		fmt.Fprintf(&b, "; behind it are %d", m.Behind)
	}
	b.WriteString(".")
	if told.Err != "" {
		fmt.Fprintf(&b, " The last error of %s: %s", told.Title(), told.Err)
	}
	return b.String()
}

// forEver is longer than a time limit that somebody waits for.
const forEver = 1000 * 24 * time.Hour

// status says how a message does: "attempt 3 of 5 in 4 s".
func status(now time.Time, m view.Message) string {
	since := ""
	if !m.Since.IsZero() {
		since = " for " + human.Since(now, m.Since)
	}
	switch {
	case m.State == stateBackoff && !m.Next.IsZero():
		return fmt.Sprintf("attempt %d of %d in %s", m.Attempts+1, m.Most, human.Duration(m.Next.Sub(now)))
	case m.State == stateBackoff:
		return "not tried again by this process"
	case m.State == stateHeld && !m.Next.IsZero() && m.Next.Sub(now) < forEver:
		return fmt.Sprintf("held%s, for %s more at most", since, human.Duration(m.Next.Sub(now)))
	case m.State == stateRunning && m.Attempts > 1 && m.Most > 0:
		return fmt.Sprintf("running%s, attempt %d of %d", since, m.Attempts, m.Most)
	}
	return m.State + since
}

func claimText(claim []view.Request) string {
	if len(claim) == 0 {
		return "no key"
	}
	texts := make([]string, len(claim))
	for i, r := range claim {
		texts[i] = requestText(r)
	}
	return strings.Join(texts, ", ")
}

func requestText(r view.Request) string {
	if r.Mode == "shared" {
		return r.Key.String() + " (shared)"
	}
	return r.Key.String()
}

// last returns the message at the end of what m waits for: one that waits for none, as far
// as is known.
func (all others) last(m view.Message) view.Message {
	for range all {
		next, found := all[m.Blocker]
		if !found {
			break
		}
		m = next
	}
	return m
}
