package parking

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// Late is how long it takes to park many streams, each for an event that is late, and
// to resume them.
type Late struct {
	Streams int
	Parked  time.Duration // from the first offer until the store holds all events
	Resumed time.Duration // from the offer of the first late event until all have run
}

// MeasureLate brings the second event of each stream, which parks it, since no replay
// brings the first one, and then the first ones, which resumes them. The store is an
// SQLite file. The grace time is 50 ms.
func MeasureLate(ctx context.Context, streams int) (l Late, err error) {
	dir, err := os.MkdirTemp("", "interlock-parking")
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	store, err := sqlite.Open(ctx, filepath.Join(dir, "x.db"))
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return late(ctx, store, streams)
}

func late(ctx context.Context, store ordering.Store, streams int) (l Late, err error) {
	var held, applied atomic.Int64
	allHeld, all := make(chan struct{}), make(chan struct{})
	seq, err := ordering.New(ctx, ordering.Config[*ordering.Event]{
		Store: store, GapTimeout: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Handler: func(context.Context, ordering.Job[*ordering.Event]) error {
			if applied.Add(1) == int64(2*streams) {
				close(all)
			}
			return nil
		},
	})
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, seq.Close()) }()
	// bring offers the event with a number of each stream and waits for what comes of it.
	bring := func(number uint64, then <-chan struct{}) (time.Duration, error) {
		began := time.Now()
		for i := range streams {
			err := seq.Offer(ctx, event(number, i), func(_ *ordering.Event, o ordering.Outcome) {
				if number == 2 && o.Result == ordering.Held && held.Add(1) == int64(streams) {
					close(allHeld)
				}
			})
			if err != nil {
				return 0, err
			}
		}
		select {
		case <-then:
			return time.Since(began), nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	l.Streams = streams
	if l.Parked, err = bring(2, allHeld); err != nil {
		return l, err
	}
	l.Resumed, err = bring(1, all)
	return l, err
}

func stream(i int) lockkeys.Key { return lockkeys.Must("account", fmt.Sprint(i)) }

func event(number uint64, streams ...int) *ordering.Event {
	e := &ordering.Event{Payload: make([]byte, 100)}
	for _, i := range streams {
		e.Positions = append(e.Positions, ordering.Position{Stream: stream(i), Number: number})
	}
	return e
}
