package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/interlock-go/interlock/dispatcher/telemetry"
	"github.com/interlock-go/interlock/examples/ledger/internal/audit"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/report"
	"github.com/interlock-go/interlock/examples/ledger/internal/service"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
)

// term is a period in which the database is this program's, and the service runs:
// from opening the store to the summary.
type term struct {
	options   *options
	input     string    // its name
	began     time.Time // when the store was opened
	temporary string    // folder to be removed at the end
	store     store.Store
	last      int64         // entry of the store's journal at the beginning
	restart   time.Duration // from the start of the program to the first message that was not done before
	audit     *audit.Audit
	metrics   *telemetry.Metrics
	service   *service.Service
	rejects   *rejects
	files     outputs
	progress  *progress
	earlier   earlier
}

// timelineMessages is how many messages the picture shows.
const timelineMessages = 300

// begin opens the store and starts the service. For an input to be read, in has
// its source, which from then on knows what was read of it before. onEnd is
// called for each message that has ended. What cannot be written at the end is
// told now, before anything is done.
func (o *options) begin(ctx context.Context, stderr io.Writer, in *input, onEnd func()) (_ *term, err error) {
	t := &term{options: o, input: in.identity.name, began: time.Now(), progress: in.progress, metrics: telemetry.NewMetrics()}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	if t.rejects, err = newRejects(o, stderr); err != nil {
		return nil, err
	}
	if t.files, err = o.outputs(); err != nil {
		return nil, err
	}
	if err := t.open(ctx); err != nil {
		return nil, err
	}
	id, err := t.identify(ctx, in)
	if err != nil {
		return nil, err
	}
	opening, err := t.totals(ctx)
	if err != nil {
		return nil, err
	}
	if t.last, t.earlier.last, err = t.store.Last(ctx); err != nil {
		return nil, err
	}
	t.earlier.term, t.earlier.input = t, id
	t.audit = audit.New(opening, max(timelineMessages, o.compare))
	t.audit.OnProblem = t.rejects.rejected
	cfg := service.Config{
		Store: t.store, Input: id, Workers: o.workers, Policy: o.policy, Latency: o.latency, GapTimeout: o.gap,
		Audit: t.audit, OnEnd: onEnd, OnRefused: t.rejects.refused,
		OnFirst: func(at time.Time, before int) { t.goesOn(stderr, at, before) },
		Logger:  o.serviceLogger(stderr), Record: o.listen != "",
		Touched: o.touched,
	}
	if o.listen != "" {
		cfg.Measure = t.metrics.Measure(service.Name)
		if numbers, is := t.store.Numbers().(*sqlstore.Store); is {
			numbers.Measure(t.metrics.Commits(service.Name))
		}
	}
	if in.source != nil {
		cfg.OnBefore = t.earlier.before
	} else if err := t.catchUp(ctx); err != nil {
		return nil, err
	}
	t.service, err = service.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// identify returns what tells the input's messages from those of others. A store
// that ends with the program has nothing to compare an input with.
func (t *term) identify(ctx context.Context, in *input) (id func() int64, err error) {
	if in.source != nil && in.identity.again && t.options.db != "" && t.options.db != store.InMemory {
		var checkpoints store.Checkpoints
		if t.options.checkpoint > 0 {
			checkpoints = t.store
		}
		followed := in.follow(ctx, t.store, checkpoints, t.options.checkpoint)
		in.source = followed
		return followed.ID, nil
	}
	entry, err := in.identity.save(ctx, t.store)
	return func() int64 { return entry.ID }, err
}

// serviceLogger tells of what cannot go on while the service runs, if it takes
// messages from others. Of an input the summary says all, soon.
func (o *options) serviceLogger(stderr io.Writer) *slog.Logger {
	if o.amqp == "" && o.listen == "" {
		return nil
	}
	return slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// catchUp adds to the rejects file what an earlier run has refused and could not
// write any more. Messages that come without an end are not read again, so that
// nothing else tells of them.
func (t *term) catchUp(ctx context.Context) error {
	if t.options.rejects == "" {
		return nil
	}
	inputs, err := t.store.Inputs(ctx)
	if err != nil {
		return err
	}
	for _, in := range append(inputs, store.Input{}) {
		err := t.store.Refusals(ctx, in.ID, func(r store.Refusal) error {
			m, err := book.ParsePayload(r.Message)
			if err == nil {
				if in.ID == 0 {
					m.Sequence, _ = ordering.ParseSequenceID(r.Event, lockkeys.Root()) // none from a name that was too long
				}
				t.rejects.again(audit.Record{Event: r.Event, Line: r.Line, Message: m, Err: &r.Rejection})
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// goesOn says, with the first message that was not done before, how many were. In a
// database that was empty these are copies, and no earlier run's.
func (t *term) goesOn(stderr io.Writer, at time.Time, before int) {
	if t.last+t.earlier.last == 0 {
		return
	}
	t.restart = at.Sub(t.options.started)
	done := "1 message that was"
	if before > 1 {
		done = fmt.Sprintf("%d messages that were", before)
	}
	fmt.Fprintf(stderr, "going on after %s done before; the first other one ended after %s\n", done, t.restart.Round(time.Millisecond))
}

// open opens the store, in a folder of its own if it is not to be kept.
func (t *term) open(ctx context.Context) (err error) {
	if t.options.db != "" {
		t.store, err = store.Open(ctx, t.options.db)
		return err
	}
	if t.temporary, err = os.MkdirTemp("", "ledger-"); err != nil {
		return err
	}
	t.store, err = openScratch(ctx, "", t.temporary)
	return err
}

// openScratch opens an empty store of the kind that -db names, unless that is a
// server.
func openScratch(ctx context.Context, db, folder string) (store.Store, error) {
	if db == store.InMemory {
		return store.NewMemory(), nil
	}
	return store.OpenSQLite(ctx, filepath.Join(folder, "ledger.db"))
}

func (t *term) totals(ctx context.Context) ([]book.Money, error) {
	balances, err := t.store.Balances(ctx, book.Root)
	return book.Totals(balances), err
}

// conclude completes the summary, writes it and the other files, and tells
// whether all is well. It is called when the service has finished. Nothing that
// goes wrong here costs what else there is to say.
func (t *term) conclude(ctx context.Context, stdout io.Writer, summary *report.Summary) (good bool, err error) {
	ctx = context.WithoutCancel(ctx) // an interrupted run is reported too
	summary.Audit, summary.Workers, summary.Policy = t.audit, t.options.workers, t.options.policy.String()
	summary.Latency, summary.Restart = t.options.latency, t.restart
	counts := t.service.Counts()
	if t.options.amqp != "" { // what ran and was not accepted here is from the queue
		summary.Read, counts.Revived = summary.Read+counts.Revived, 0
	}
	summary.Before, summary.Held, summary.Refused = counts.Before, counts.Held, counts.Refused
	summary.Left, summary.Gone, summary.Revived = counts.Left, counts.Gone, counts.Revived
	unread := t.read(ctx, summary)
	summary.Earlier, err = t.earlier.outcomes()
	summary.Failure = errors.Join(summary.Failure, unread, err)
	if summary.Failure != nil || summary.Served {
		summary.SpeedUp.Missing = "that needs an input that was run to its end"
	} else if summary.SpeedUp, err = t.compare(ctx); err != nil {
		summary.SpeedUp.Missing = err.Error()
	}
	failed := make([]error, 3)
	summary.Rejects, failed[0] = t.rejects.finish()
	failed[1] = summary.Write(stdout)
	if unread == nil {
		failed[2] = t.files.write(t, summary)
	}
	return summary.Good(), errors.Join(failed...)
}

// read completes the summary with what the store says.
func (t *term) read(ctx context.Context, summary *report.Summary) error {
	summary.Store, summary.Stats = t.store.Name(), t.store.Stats()
	totals, err := t.totals(ctx)
	if err != nil {
		return err
	}
	if summary.Journaled, err = t.store.Journal(ctx, t.last); err != nil {
		return err
	}
	if summary.Balances, err = report.Balances(ctx, t.store); err != nil {
		return err
	}
	switch err := t.store.Holds(ctx); { // when all was read that is to be this run's
	case errors.Is(err, ordering.ErrFenced):
		summary.TakenOver = true
		return nil
	case err != nil:
		return err
	}
	t.audit.Money.Close(totals)
	return nil
}

// close closes the store and removes what is temporary.
func (t *term) close() error {
	var errs []error
	if t.rejects != nil {
		errs = append(errs, t.rejects.close())
	}
	if t.store != nil {
		errs = append(errs, t.store.Close())
	}
	if t.temporary != "" {
		errs = append(errs, os.RemoveAll(t.temporary))
	}
	return errors.Join(errs...)
}
