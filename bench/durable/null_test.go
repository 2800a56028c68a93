package durable

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// nullStore keeps nothing: what is measured with it is the sequencer alone. It
// knows of no stream, and is asked for nothing that it would have to answer. It
// is its own term.
type nullStore struct{ ordering.Term }

func (s nullStore) Begin(context.Context, ordering.Consumer) (ordering.Term, error) { return s, nil }
func (s nullStore) Reader(string) ordering.Reader                                   { return s }

func (nullStore) Info() ordering.TermInfo   { return ordering.TermInfo{} }
func (nullStore) End(context.Context) error { return nil }

func (nullStore) Acquire(_ context.Context, streams []lockkeys.Key) ([]ordering.StreamState, error) {
	return make([]ordering.StreamState, len(streams)), nil
}

func (nullStore) Commit(context.Context, ordering.Record) error                 { return nil }
func (nullStore) Parked(context.Context, ...string) ([]ordering.Parking, error) { return nil, nil }
func (nullStore) Backlog(context.Context) ([]lockkeys.Key, error)               { return nil, nil }
func (nullStore) Prune(context.Context, time.Time, time.Time) (int64, error)    { return 0, nil }
func (nullStore) Close() error                                                  { return nil }
