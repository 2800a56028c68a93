package outbox

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/interlock-go/interlock/internal/loglimit"
)

// database is a database or the connection that holds the lock.
type database interface {
	querier
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}

// leader is the state of an active relay. Only the goroutine of [leader.run] uses
// it; those that publish send it results.
//
// Invariants:
//   - An event is started only if every earlier event of its streams is marked
//     as sent in the database, or is before it in the same run; and only if
//     it is not parked there.
//   - A stream is in busy from the start of a run with it until the run has ended,
//     its confirmed events are marked, and an event that cannot be sent is parked.
//     So no two concurrent runs have a stream in common, and an event waiting for
//     its next attempt keeps its streams.
type leader struct {
	*Relay
	db database

	results   chan result
	sending   map[*run]struct{}   // runs with a goroutine
	bytes     int64               // of their events
	retrying  int                 // number of those that have failed before
	failures  failures            // events that wait for another attempt
	busy      map[string]struct{} // streams of all these
	cursor    int64               // the row of the stream examined last
	cutAt     int64               // that of the stream loaded last, if MaxBytes ended loading
	news      bool                // there may be something new to find
	nextFind  time.Time           // when to look for more without news
	rest      time.Time           // do not look for more before
	freshTurn bool                // new events, not failed ones, have the first choice of free places
	confirmed []any               // ids of events to be marked
	unfit     []unfit             // events to be parked

	away      away
	tell      loglimit.Limit // for failures
	lastError error          // of the last warning about a failure
	toldFull  bool           // it was logged that MaxFailing is reached
}

func newLeader(r *Relay, db database) *leader {
	l := &leader{Relay: r, db: db, results: make(chan result, r.config.Window), sending: map[*run]struct{}{}, busy: map[string]struct{}{}}
	l.tell = loglimit.Limit{Lines: tellFailures, Every: tellEvery}
	return l
}

// run works until ctx ends, and then until the events being published have ended
// or the grace time is over; or until the database fails.
func (l *leader) run(ctx context.Context) (err error) {
	work, cancel := graceful(ctx, l.config.Grace)
	defer func() {
		cancel()
		for len(l.sending) > 0 {
			l.take(<-l.results)
		}
		l.failures = nil
		l.stats.away.Store(false)
		l.count()
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	end, ended := ctx.Done(), false
	wake := l.box.Notices()
	for look := true; ; {
		if look && !ended {
			if err := l.look(ctx, work); err != nil {
				return err
			}
			timer.Reset(l.nextLook())
		}
		look = false
		if l.count(); ended && len(l.sending) == 0 {
			return nil
		}
		select {
		case <-end:
			end, ended = nil, true
		case <-wake:
			wake, look, l.news = l.box.Notices(), true, true
		case <-timer.C:
			look = true
		case r := <-l.results:
			if look, err = l.settle(work, r); err != nil {
				return err
			}
		}
	}
}

// look starts events that may be sent. New ones and failed ones take turns at the
// first choice, so that neither wait for ever.
func (l *leader) look(stopped, work context.Context) error {
	l.tellMore()
	if l.isAway() {
		return nil
	}
	steps := []func(stopped, work context.Context) error{l.retry, l.find}
	if l.freshTurn = !l.freshTurn; l.freshTurn {
		slices.Reverse(steps)
	}
	for _, step := range steps {
		if err := step(stopped, work); err != nil {
			return err
		}
	}
	return nil
}

// graceful returns a context that ends when ctx has ended and the grace time
// has passed.
func graceful(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(grace, cancel)
		context.AfterFunc(work, func() { timer.Stop() })
	})
	return work, func() { stop(); cancel() }
}
