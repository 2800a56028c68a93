package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/interlock-go/interlock/examples/ledger/internal/audit"
	"github.com/interlock-go/interlock/examples/ledger/internal/feed"
	"github.com/interlock-go/interlock/examples/ledger/internal/intake"
	"github.com/interlock-go/interlock/examples/ledger/internal/report"
	"github.com/interlock-go/interlock/examples/ledger/internal/service"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
)

// replay runs the messages of an input and writes the summary.
func (o *options) replay(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) (good bool, err error) {
	in, err := o.openInput(stdin, stderr)
	if err != nil {
		return false, err
	}
	defer in.close()
	t, err := o.begin(ctx, stderr, in, in.progress.ended)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, t.close()) }()

	summary := &report.Summary{Input: in.identity.name}
	start := time.Now()
	summary.Failure = t.readAll(ctx, in.source, summary)
	in.progress.finish()
	summary.Elapsed = time.Since(start)
	summary.Empty = summary.Failure == nil && summary.Read+summary.Malformed == 0 && o.in != ""
	if summary.Failure == nil {
		tellShort(stderr, in)
	}
	return t.conclude(ctx, stdout, summary)
}

// tellShort tells of an input that was read to its end, if more was once.
func tellShort(stderr io.Writer, in *input) {
	if followed, ok := in.source.(*intake.Source); ok && followed.Short() {
		fmt.Fprintln(stderr, "the input ends before what was read of it once: it is the beginning of that, or was cut; nothing is applied twice")
	}
}

// patience is how long messages that were read may take to end once no more
// are to be read.
const patience = 30 * time.Second

// readAll runs the messages of a source to their end. What cannot be read is
// set aside, and the rest goes on.
func (t *term) readAll(ctx context.Context, source feed.Source, summary *report.Summary) error {
	err := t.submitAll(ctx, source, summary)
	finish, stop := outlast(ctx, patience)
	defer stop()
	waiting, ended := t.service.Finish(finish)
	summary.Waiting = waiting
	switch {
	case ctx.Err() != nil && finish.Err() != nil:
		return fmt.Errorf("interrupted after %d messages: %w", summary.Read, ended)
	case ctx.Err() != nil && ended == nil:
		return fmt.Errorf("interrupted after %d messages; those were run to their end", summary.Read)
	case err == nil || ended != nil && t.service.Stopped():
		return ended
	}
	return err
}

// outlast returns a context that ends some time after another one, or is stopped.
func outlast(ctx context.Context, d time.Duration) (later context.Context, stop func()) {
	later, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	late := make(chan *time.Timer, 1)
	unwatch := context.AfterFunc(ctx, func() {
		late <- time.AfterFunc(d, func() { cancel(fmt.Errorf("not at the end after %s", d)) })
	})
	return later, func() {
		if !unwatch() {
			(<-late).Stop()
		}
		cancel(nil)
	}
}

// submitAll hands over the messages of a source until it ends or ctx does. The
// source is read on a goroutine of its own, since reading a terminal does not
// end when ctx does.
func (t *term) submitAll(ctx context.Context, source feed.Source, summary *report.Summary) (err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	passed := &passed{term: t, summary: summary}
	defer func() { err = cmp.Or(passed.changed(), err) }()
	for next := range read(ctx, source) {
		if err := passed.begin(ctx, source, stop); err != nil {
			return err
		}
		if malformed, ok := errors.AsType[*feed.Malformed](next.err); ok {
			summary.Malformed++
			t.rejects.malformed(malformed)
			continue
		}
		switch {
		case next.err == io.EOF:
			return nil
		case next.err != nil:
			return fmt.Errorf("%s: %w", t.input, next.err)
		}
		if err := t.service.Submit(ctx, next.item.Line, next.item.Message); err != nil {
			return err
		}
		summary.Read++
		if place := next.item.Place; place != nil {
			if err := passed.changed(); err != nil { // no checkpoint before that is known
				return err
			}
			if err := t.service.Mark(next.item.Line, place); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// next is what a source gave.
type next struct {
	item feed.Item
	err  error
}

// read yields what a source gives, the error that ends it included, until ctx
// ends.
func read(ctx context.Context, source feed.Source) iter.Seq[next] {
	given := make(chan next, 256)
	go func() {
		for {
			item, err := source.Next()
			select {
			case given <- next{item, err}:
			case <-ctx.Done():
				return
			}
			if _, malformed := errors.AsType[*feed.Malformed](err); err != nil && !malformed {
				return
			}
		}
	}()
	return func(yield func(next) bool) {
		for ctx.Err() == nil {
			select {
			case n := <-given:
				if !yield(n) {
					return
				}
			case <-ctx.Done():
			}
		}
	}
}

// compare runs the first messages twice more, each time on a scratch store: with
// one worker, and then with as many as the run had.
func (t *term) compare(ctx context.Context) (u report.SpeedUp, err error) {
	early := t.audit.Early[:min(len(t.audit.Early), t.options.compare)]
	switch {
	case t.options.compare == 0:
		return report.SpeedUp{Missing: "-compare is 0"}, nil
	case t.options.workers == 1:
		return report.SpeedUp{Missing: "this was one worker"}, nil
	case store.IsURL(t.options.db):
		return report.SpeedUp{Missing: "it would need another database of the server"}, nil
	case len(early) == 0:
		return report.SpeedUp{Missing: "no message has run"}, nil
	case t.last > 0:
		return report.SpeedUp{Missing: "the database was not empty at the beginning"}, nil
	}
	alone, err := t.again(ctx, early, 1)
	if err != nil {
		return u, err
	}
	together, err := t.again(ctx, early[:len(alone)], t.options.workers)
	if err != nil {
		return u, err
	}
	u = report.SpeedUp{Messages: len(alone), Workers: t.options.workers, Alone: took(alone), Together: took(together)}
	if u.Alone <= 0 || u.Together <= 0 {
		return report.SpeedUp{Missing: "there was nothing to measure"}, nil
	}
	return u, nil
}

// compareBudget bounds the time for messages to be submitted again.
const compareBudget = 5 * time.Second

// again runs messages on a scratch store and returns the new records of those
// that fitted in the time.
func (t *term) again(ctx context.Context, records []audit.Record, workers int) (_ []audit.Record, err error) {
	folder, err := os.MkdirTemp("", "ledger-compare-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	scratch, err := openScratch(ctx, t.options.db, folder)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, scratch.Close()) }()
	seen := audit.New(nil, len(records))
	service, err := service.Start(ctx, service.Config{
		Store: scratch, Workers: workers, Policy: t.options.policy, Latency: t.options.latency, Audit: seen,
		MaxPending: max(64, 2*workers), // so that the time is that of running, not of queueing
		Touched:    t.options.touched,
	})
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(compareBudget)
	for _, r := range records {
		if err != nil || time.Now().After(deadline) {
			break
		}
		m := *r.Message
		m.Sequence = nil // some of those before it may not be among the first
		err = service.Submit(ctx, r.Line, &m)
	}
	_, ended := service.Finish(ctx)
	return seen.Early, errors.Join(err, ended)
}

// took is the time from the first start to the last end.
func took(records []audit.Record) time.Duration {
	if len(records) == 0 {
		return 0
	}
	first, last := records[0].Run.Start, records[0].Run.Stop
	for _, r := range records {
		if r.Run.Start.Before(first) {
			first = r.Run.Start
		}
		if r.Run.Stop.After(last) {
			last = r.Run.Stop
		}
	}
	return last.Sub(first)
}
