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

	"github.com/interlock-go/interlock/examples/ledger/internal/audit"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/report"
	"github.com/interlock-go/interlock/examples/ledger/internal/service"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
)

// session is one run of the service, from opening the store to the summary.
type session struct {
	options   *options
	temporary string // folder to be removed at the end
	store     store.Store
	last      int64         // entry of the store's journal at the beginning
	restart   time.Duration // from the start of the program to the first message that was not done before
	audit     *audit.Audit
	service   *service.Service
	rejects   *rejects
}

// timelineMessages is how many messages the picture shows.
const timelineMessages = 300

// begin opens the store and starts the service for an input. onEnd is called
// for each message that has ended.
func (o *options) begin(ctx context.Context, stderr io.Writer, id identity, onEnd func()) (_ *session, err error) {
	s := &session{options: o, rejects: newRejects(o.rejects, o.amqp != "", stderr)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	in, err := id.find(ctx, s.store)
	if err != nil {
		return nil, err
	}
	opening, err := s.totals(ctx)
	if err != nil {
		return nil, err
	}
	if s.last, err = s.store.Last(ctx); err != nil {
		return nil, err
	}
	s.audit = audit.New(opening, max(timelineMessages, o.compare))
	s.audit.OnProblem = s.rejects.rejected
	s.service, err = service.Start(ctx, service.Config{
		Store: s.store, Input: in.ID, Workers: o.workers, Policy: o.policy, Latency: o.latency, GapTimeout: o.gap,
		Audit: s.audit, OnEnd: onEnd, OnRefused: s.rejects.refused,
		OnFirst: func(before int) { s.goesOn(stderr, before) },
		Logger:  o.serviceLogger(stderr),
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// serviceLogger tells of what cannot go on while the service runs, if it takes
// messages from others. Of an input the summary says all, soon.
func (o *options) serviceLogger(stderr io.Writer) *slog.Logger {
	if o.amqp == "" && o.listen == "" {
		return nil
	}
	return slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// goesOn says, with the first message that was not done before, how many were.
func (s *session) goesOn(stderr io.Writer, before int) {
	if before == 0 {
		return
	}
	s.restart = time.Since(s.options.started)
	done := "1 message that was"
	if before > 1 {
		done = fmt.Sprintf("%d messages that were", before)
	}
	fmt.Fprintf(stderr, "going on after %s done before; the first other one ended after %s\n", done, s.restart.Round(time.Millisecond))
}

// open opens the store, in a folder of its own if it is not to be kept.
func (s *session) open(ctx context.Context) (err error) {
	if s.options.db != "" {
		s.store, err = store.Open(ctx, s.options.db)
		return err
	}
	if s.temporary, err = os.MkdirTemp("", "ledger-"); err != nil {
		return err
	}
	s.store, err = openScratch(ctx, "", s.temporary)
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

func (s *session) totals(ctx context.Context) ([]book.Money, error) {
	balances, err := s.store.Balances(ctx, book.Root)
	return book.Totals(balances), err
}

// conclude completes the summary, writes it and the other files, and tells
// whether all is well. It is called when the service has finished.
func (s *session) conclude(ctx context.Context, stdout io.Writer, summary *report.Summary) (good bool, err error) {
	ctx = context.WithoutCancel(ctx) // an interrupted run is reported too
	summary.Audit, summary.Workers, summary.Policy = s.audit, s.options.workers, s.options.policy.String()
	summary.Latency = s.options.latency
	summary.Store, summary.Stats = s.store.Name(), s.store.Stats()
	totals, err := s.totals(ctx)
	if err != nil {
		return false, err
	}
	if !summary.Shared {
		s.audit.Money.Close(totals)
	}
	if summary.Journaled, err = s.store.Journal(ctx, s.last); err != nil {
		return false, err
	}
	counts := s.service.Counts()
	if s.options.amqp != "" { // what ran and was not accepted here is from the queue
		summary.Read, counts.Revived = summary.Read+counts.Revived, 0
	}
	summary.Before, summary.Held, summary.Refused, summary.Revived = counts.Before, counts.Held, counts.Refused, counts.Revived
	summary.Restart = s.restart
	if summary.Balances, err = report.Balances(ctx, s.store); err != nil {
		return false, err
	}
	if summary.Failure != nil || summary.Served {
		summary.SpeedUp.Missing = "that needs an input that was run to its end"
	} else if summary.SpeedUp, err = s.compare(ctx); err != nil {
		return false, err
	}
	if summary.Rejects, err = s.rejects.finish(); err != nil {
		return false, err
	}
	return summary.Good(), errors.Join(summary.Write(stdout), s.writeFiles(summary))
}

func (s *session) writeFiles(summary *report.Summary) error {
	var errs []error
	if s.options.out != "" {
		errs = append(errs, writeFile(s.options.out, func(w io.Writer) error {
			return report.WriteBalances(w, summary.Balances)
		}))
	}
	if s.options.timeline != "" {
		early := s.audit.Early[:min(len(s.audit.Early), timelineMessages)]
		title := fmt.Sprintf("Who ran when: %s, up to %d at once", summary.Policy, summary.Workers)
		errs = append(errs, writeFile(s.options.timeline, func(w io.Writer) error {
			return report.NewTimeline(early, s.audit.Outcomes.Total()).WriteSVG(w, title)
		}))
	}
	return errors.Join(errs...)
}

func writeFile(name string, write func(w io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// close closes the store and removes what is temporary.
func (s *session) close() error {
	var errs []error
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	if s.temporary != "" {
		errs = append(errs, os.RemoveAll(s.temporary))
	}
	return errors.Join(errs...)
}
