package outbox

import (
	"context"
	"time"
)

// away records whether the publisher is connected to its receivers.
type away struct {
	life  context.Context // from Alive, at the last check
	since time.Time       // when the connection was found lost; zero if it is not
	told  bool            // the loss was logged
}

// isAway reports whether the publisher's connection is lost. It logs a loss that
// has lasted for a Poll, and its end. Nothing is started meanwhile: everything
// would fail, which says nothing about the events.
func (l *leader) isAway() bool {
	a := &l.away
	a.life = l.config.Alive()
	lost := a.life.Err() != nil
	switch {
	case lost && a.since.IsZero():
		a.since = time.Now()
	case lost && !a.told && time.Since(a.since) >= l.config.Poll:
		a.told = true
		l.config.Logger.Warn("outbox: nothing is sent until the publisher is connected again", "err", context.Cause(a.life))
	case !lost && !a.since.IsZero():
		if a.told {
			l.config.Logger.Info("outbox: the publisher is connected again", "after", time.Since(a.since))
		}
		a.since, a.told = time.Time{}, false
	}
	l.stats.away.Store(lost)
	return lost
}
