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

// leader is the state of an active relay. One goroutine has it, that of
// [leader.run]; those that publish talk to it through results.
//
// Invariants:
//   - An event is started only if every earlier event of its streams is marked
//     as sent in the database, or is before it in the same run; and only if
//     it is not parked there.
//   - A stream is in busy from when a run with it is started until the run has
//     ended, what was confirmed of it is marked, and an event that it was
//     given up for is parked. So no two runs at a time have a stream in
//     common, and an event waiting for its next attempt still keeps its streams.
type leader struct {
	*Relay
	db database

	results   chan result
	sending   map[*run]struct{}   // that have a goroutine
	bytes     int64               // of their events
	retrying  int                 // those of them that have failed before
	failures  failures            // what waits for another attempt
	busy      map[string]struct{} // streams of all these
	cursor    string              // the stream that was looked at last
	cutAt     string              // the last one that was loaded, if MaxBytes ended that
	news      bool                // something may be found that was not there
	nextFind  time.Time           // when to look for more without news
	rest      time.Time           // not to look for more before
	freshTurn bool                // what is new has the first choice of free places
	confirmed []any               // ids of events to be marked
	unfit     []unfit             // events to be parked

	away      away
	tell      loglimit.Limit // for failures
	lastError error          // of a failure
	toldFull  bool
}

func newLeader(r *Relay, db database) *leader {
	l := &leader{Relay: r, db: db, results: make(chan result, r.config.Window), sending: map[*run]struct{}{}, busy: map[string]struct{}{}}
	l.tell = loglimit.Limit{Lines: tellFailures, Every: tellEvery}
	return l
}

// run works until ctx ends, and then until the grace time is over or what is
// being published has ended; or until the database fails.
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
	wake := l.box.wake()
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
			wake, look, l.news = l.box.wake(), true, true
		case <-timer.C:
			look = true
		case r := <-l.results:
			if look, err = l.settle(work, r); err != nil {
				return err
			}
		}
	}
}

// look starts what may be sent. What is new and what has failed before have the
// first choice in turn, so that neither waits for ever.
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
