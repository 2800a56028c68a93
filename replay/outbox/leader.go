package outbox

import (
	"context"
	"database/sql"
	"time"
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
//     common, and a run waiting for its next attempt still keeps its streams.
type leader struct {
	*Relay
	db database

	results   chan result
	sending   int                 // runs that have a goroutine
	waiting   []*run              // runs whose first event has failed
	busy      map[string]struct{} // streams of both
	cursor    string              // the stream that was looked at last
	confirmed []any               // ids of events to be marked
	unfit     []unfit             // events to be parked
}

func newLeader(r *Relay, db database) *leader {
	return &leader{Relay: r, db: db, results: make(chan result, r.config.Window), busy: map[string]struct{}{}}
}

// run works until ctx ends, and then until the grace time is over or what is
// being published has ended; or until the database fails.
func (l *leader) run(ctx context.Context) (err error) {
	work, cancel := graceful(ctx, l.config.Grace)
	defer func() {
		cancel()
		for l.sending > 0 {
			l.take(<-l.results)
		}
		l.waiting = nil
		l.count()
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	end, ended := ctx.Done(), false
	wake := l.box.wake()
	for look := true; ; {
		if look && !ended {
			l.retry(ctx, work)
			if err := l.find(ctx, work); err != nil {
				return err
			}
			timer.Reset(l.nextLook())
		}
		look = false
		if l.count(); ended && l.sending == 0 {
			return nil
		}
		select {
		case <-end:
			end, ended = nil, true
		case <-wake:
			wake, look = l.box.wake(), true
		case <-timer.C:
			look = true
		case r := <-l.results:
			if look, err = l.settle(work, r); err != nil {
				return err
			}
		}
	}
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
