package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/interlock-go/interlock/examples/ledger/internal/audit"
	"github.com/interlock-go/interlock/examples/ledger/internal/feed"
	"github.com/interlock-go/interlock/examples/ledger/internal/report"
	"github.com/interlock-go/interlock/examples/ledger/internal/service"
)

// replay runs the messages of an input and writes the summary.
func (o *options) replay(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) (good bool, err error) {
	in, err := o.openInput(stdin, stderr)
	if err != nil {
		return false, err
	}
	defer in.close()
	s, err := o.begin(ctx, stderr, in.progress.ended)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, s.close()) }()

	summary := &report.Summary{Input: in.name}
	start := time.Now()
	summary.Failure = s.readAll(ctx, in.source, summary)
	in.progress.finish()
	summary.Elapsed = time.Since(start)
	return s.conclude(ctx, stdout, summary)
}

// patience is how long messages that were read may take to end once no more
// are to be read.
const patience = 30 * time.Second

// readAll runs the messages of a source to their end. What cannot be read is
// set aside, and the rest goes on.
func (s *session) readAll(ctx context.Context, source feed.Source, summary *report.Summary) error {
	err := s.submitAll(ctx, source, summary)
	finish := context.WithoutCancel(ctx)
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		finish, cancel = context.WithTimeout(finish, patience)
		defer cancel()
		err = fmt.Errorf("interrupted after %d messages; those were run to their end", summary.Read)
	}
	ended := s.service.Finish(finish)
	if err == nil || ended != nil && s.service.Stopped() {
		err = ended
	}
	return err
}

func (s *session) submitAll(ctx context.Context, source feed.Source, summary *report.Summary) error {
	for ctx.Err() == nil {
		item, err := source.Next()
		if malformed, ok := errors.AsType[*feed.Malformed](err); ok {
			summary.Malformed++
			s.rejects.malformed(malformed)
			continue
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("input: %w", err)
		}
		if err := s.service.Submit(ctx, item.Line, item.Message); err != nil {
			return err
		}
		summary.Read++
	}
	return ctx.Err()
}

// compare runs the first messages once more, with one worker on a scratch
// store.
func (s *session) compare(ctx context.Context) (report.SpeedUp, error) {
	early := s.audit.Early[:min(len(s.audit.Early), s.options.compare)]
	switch {
	case s.options.compare == 0:
		return report.SpeedUp{Missing: "-compare is 0"}, nil
	case s.options.workers == 1:
		return report.SpeedUp{Missing: "this was one worker"}, nil
	case s.continued:
		return report.SpeedUp{Missing: "the database was not empty at the beginning"}, nil
	case len(early) == 0:
		return report.SpeedUp{Missing: "there were no messages"}, nil
	}
	folder, err := os.MkdirTemp("", "ledger-compare-")
	if err != nil {
		return report.SpeedUp{}, err
	}
	defer os.RemoveAll(folder)
	alone, err := s.runAlone(ctx, folder, early)
	if err != nil {
		return report.SpeedUp{}, fmt.Errorf("run with one worker: %w", err)
	}
	u := report.SpeedUp{Messages: len(alone)}
	if u.Here, u.Alone = took(early[:len(alone)]), took(alone); u.Here <= 0 || u.Alone <= 0 {
		return report.SpeedUp{Missing: "it was over too soon"}, nil
	}
	return u, nil
}

// compareBudget bounds the time for messages to be submitted to one worker.
const compareBudget = 5 * time.Second

// runAlone runs messages with one worker and returns the records of those
// that fitted in the time.
func (s *session) runAlone(ctx context.Context, folder string, records []audit.Record) ([]audit.Record, error) {
	scratch, err := openScratch(ctx, s.options.db, folder)
	if err != nil {
		return nil, err
	}
	defer scratch.Close()
	seen := audit.New(nil, len(records))
	alone, err := service.Start(ctx, service.Config{
		Store: scratch, Workers: 1, Policy: s.options.policy, Latency: s.options.latency, Audit: seen, MaxPending: 64,
	})
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(compareBudget)
	for _, r := range records {
		if time.Now().After(deadline) {
			break
		}
		if err = alone.Submit(ctx, r.Line, r.Message); err != nil {
			break
		}
	}
	err = errors.Join(err, alone.Finish(context.WithoutCancel(ctx)))
	return seen.Early, err
}

// took is the time from the first start to the last end.
func took(records []audit.Record) time.Duration {
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
