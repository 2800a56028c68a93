package outbox

import (
	"context"
	"time"
)

// away is what a leader knows of the publisher's way to its receivers.
type away struct {
	life  context.Context // of the way, when it was looked at last
	since time.Time       // when it was found lost; zero while it is there
	told  bool            // that it is lost
}

// isAway looks whether the publisher's way to its receivers is lost, and tells
// of it when that has lasted for a while: once, and once more when it is over.
// Nothing is started meanwhile: all of it would fail, which says nothing about
// the events.
func (l *leader) isAway() bool {
	a := &l.away
	a.life = l.config.Alive()
	lost := a.life.Err() != nil
	switch {
	case lost && a.since.IsZero():
		a.since = time.Now()
	case lost && !a.told && time.Since(a.since) >= l.config.Poll:
		a.told = true
		l.config.Logger.Warn("outbox: nothing is sent until the publisher's way to its receivers is back", "error", context.Cause(a.life))
	case !lost && !a.since.IsZero():
		if a.told {
			l.config.Logger.Info("outbox: the publisher's way to its receivers is back", "after", time.Since(a.since))
		}
		a.since, a.told = time.Time{}, false
	}
	l.stats.away.Store(lost)
	return lost
}
