package bench

import (
	"context"
	"fmt"
	"slices"

	"github.com/interlock-go/interlock/bench/durable"
	"github.com/interlock-go/interlock/bench/model"
)

// measureDurable measures what the targets and the sections below need.
func (r *report) measureDurable() (err error) {
	r.progress("Durability")
	if r.durable, err = MeasureDurable(context.Background(), r.e); err != nil {
		return err
	}
	r.progress("The analytical model")
	r.model, err = model.Measure()
	return err
}

// ordering writes what numbered events and durable effects cost.
func (r *report) ordering() error {
	r.section("The sequencer")
	r.line(`Nanoseconds that an event takes that comes in its turn, with an empty handler
and a store that does nothing, and what of it the sequencer adds.
`)
	r.header("positions of an event", "dispatcher alone", "sequencer", "added", "allocations")
	for _, o := range r.durable.Overheads {
		r.row(fmt.Sprint(o.Positions), fmt.Sprintf("%.0f", o.Dispatcher), fmt.Sprintf("%.0f", o.Sequencer),
			fmt.Sprintf("%.0f", o.Added), fmt.Sprintf("%.3f", o.Allocs))
	}
	idle := r.durable.Idle
	r.line("\nAfter an event of each of %d streams, with at most %d of them in memory:\n%.1f MB more of heap than before.",
		idle.Streams, idle.MaxActive, idle.After-idle.Before)

	r.section("Exactly once, on a disk")
	r.line("A ledger: nine of ten messages are transfers, with two positions, the others\n" +
		"deposits, with one. Each changes its balances and adds a line to a journal, and\n" +
		"in the same transaction its numbers become done and its job state is kept. The\n" +
		"loops are on one connection, with prepared statements. PostgreSQL is measured\n" +
		"twice: on the same machine, and over a link that makes a round trip a millisecond\n" +
		"longer, as in a cloud, for all contenders, and limits nothing else.\n")
	r.line("- %s: a plain loop over database/sql, one transaction for each message", durable.OneByOne)
	r.line("- %s: the same with as many messages in a transaction as interlock had; 64 for the\n  account that all messages go through, and on PostgreSQL", durable.ByHand)
	r.line("- %s: on PostgreSQL, the same with all statements of a transaction sent at once", durable.Pipelined)
	r.line("- %s: the sequencer and sqlstore, whose handlers use its transaction, in chains\n  (Together); on PostgreSQL one of pgx, in which they queue their statements", durable.Interlock)
	r.line("- %s: on PostgreSQL, the same with handlers that wait for each statement\n", durable.Waiting)
	for _, t := range slices.Concat(r.durable.SQLite, r.durable.Postgres) {
		if err := t.Write(r); err != nil {
			return err
		}
		r.line("")
	}
	r.section("Recovery")
	r.line("A sequencer with a fresh SQLite database gets %d events from an outbox, whose order\n"+
		"can only be found link by link: %.2f s, %d requests.\n", r.durable.Chain.Events, r.durable.Chain.Elapsed.Seconds(), r.durable.Chain.Requests)
	r.line("%d streams with a gap that nobody fills are parked on SQLite after %.2f s; when the\n"+
		"missing events come, all have run after another %.2f s.", r.durable.Late.Streams, r.durable.Late.Parked.Seconds(), r.durable.Late.Resumed.Seconds())
	r.section("The analytical model")
	return r.model.Write(r)
}
