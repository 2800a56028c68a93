package saga

import (
	"context"
	"database/sql"
	"log/slog"
	"reflect"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/internal/safelog"
	"github.com/interlock-go/interlock/internal/settings"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
)

// Config configures a [Coordinator]. Store is required; the zero value of every other
// field means its default.
type Config struct {
	// Store has the runs. Effects of steps with DoTx are in its database.
	Store *sqlstore.Store
	// Name tells coordinators apart, on one database and at those who are called; each has
	// its own runs, and its own lock keys. At most 100 bytes, without spaces, control
	// characters and "/". Default: "default".
	Name string
	// Holder describes the process, for the one that is taken over. Default: the host
	// name and the process ID.
	Holder string
	// Record, if set, is called for each event of each run, see [SagaStarted] and so on, in
	// order, as the last thing in the transaction that makes it durable; for SagaStarted,
	// that of Start. Its error undoes the transaction, and an error of the caller's own, or a
	// panic, is waited out like one of the store. The event has an ID, a type, a time, the run's ID as
	// CorrelationID, the event before it in the run as CausationID, and the rest of its
	// [Entry] as its payload, in JSON, see [EntryOf]; those of SagaStarted and SagaUpgraded
	// also have the name and the version of the definition. It has no positions; these are
	// the caller's. With an outbox, or an event log, for example:
	//
	//	_, err := box.Enqueue(ctx, tx, e, lockkeys.Must("saga", e.CorrelationID))
	//
	//	e.Positions = []ordering.Position{{Stream: lockkeys.Must("saga", e.CorrelationID)}}
	//	_, err := log.Append(ctx, tx, []*ordering.Event{e})
	//
	// It may be called more than once for an event, if the transaction before was
	// rolled back.
	Record func(ctx context.Context, tx *sql.Tx, e *ordering.Event) error
	// Workers is the number of attempts, and of functions of Do, that run at the same
	// time. Default: 64.
	Workers int
	// MaxRuns bounds the runs that are taken up, in memory. Others wait in the database,
	// in the order in which they were started. Default: 16,384.
	MaxRuns int
	// Poll is how often the database is asked for runs that were started, without
	// [Coordinator.Notify]. Default: 250 ms.
	Poll time.Duration
	// MaxCrashes is how many attempts of a step, to do or to undo it, may end with the
	// process: by the memory that they take, by os.Exit, by a crash in C. After that the
	// run is parked, with what it keeps and with its history. What counts, and what it
	// costs, says the package documentation under "What ends the process". Default: 5;
	// negative: nothing is counted, and a step that ends the process does so again and
	// again. A process that is killed from outside, again and again as it starts, looks
	// the same: set it higher where that happens.
	MaxCrashes int
	// StoreBackoff is the wait after an error of the store. Default: from 50 ms to 5 s.
	StoreBackoff dispatcher.Backoff
	// Measure, if set, is told how long each call of DoTx, UndoTx, Do and Undo of a step
	// took, by several goroutines at once. It must return at once and not panic. Package
	// telemetry has one. Default: nothing is measured.
	Measure func(view.Step)
	// Logger gets what an operator should know. Default: slog.Default().
	Logger *slog.Logger
}

const defaultName = "default"

func (c Config) withDefaults() Config {
	settings.Default(&c.Name, defaultName)
	settings.Default(&c.Workers, 64)
	settings.Default(&c.MaxCrashes, 5)
	settings.Default(&c.MaxRuns, 1<<14)
	settings.Default(&c.Poll, 250*time.Millisecond)
	c.StoreBackoff = c.StoreBackoff.WithDefaults(50*time.Millisecond, 5*time.Second)
	c.Logger = safelog.New(c.Logger)
	if c.Record == nil {
		c.Record = func(context.Context, *sql.Tx, *ordering.Event) error { return nil }
	}
	return c
}

func (c Config) validate(definitions []*definition) error {
	var p settings.Problems
	p.Add(c.Store == nil, "Store is nil: open one")
	p.Add(!isName(c.Name, "/"), "Name is %.80q: it must have 1 to 100 bytes, without spaces, control characters and /", c.Name)
	p.Add(c.Workers < 1, "Workers is %d: it must be at least 1", c.Workers)
	p.Add(c.MaxRuns < 1, "MaxRuns is %d: it must be at least 1", c.MaxRuns)
	p.Add(c.Poll < 0, "Poll is %v: it must not be negative", c.Poll)
	wrong := c.StoreBackoff.Validate()
	p.Add(wrong != nil, "Store%w", wrong)
	p.Add(len(definitions) == 0, "no definition is registered: register those of all active runs")
	names, types := map[pin]bool{}, map[reflect.Type]string{}
	for _, d := range definitions {
		p = append(p, d.problems...)
		p.Add(names[d.pin()], "%v is registered twice", d)
		names[d.pin()] = true
		other, taken := types[d.state]
		p.Add(taken && other != d.name, "%v and %s have the same type of state, %v, by which Start finds a definition: give each its own", d, other, d.state)
		types[d.state] = d.name
	}
	_, wrongs := rootsOf(definitions)
	p = append(p, wrongs...)
	return p.Err(ErrConfig)
}
