package main

import (
	"context"
	"sync"

	"github.com/interlock-go/interlock/examples/ledger/internal/feed"
	"github.com/interlock-go/interlock/examples/ledger/internal/intake"
	"github.com/interlock-go/interlock/examples/ledger/internal/report"
)

// passed is the beginning of an input, if that was done before and is passed over.
// Its messages count as if they had been read. Whether it was changed since is found
// out beside the run.
type passed struct {
	term    *term
	summary *report.Summary
	began   bool
	check   sync.WaitGroup
	err     error // of the check, when that has ended
}

// begin takes what was passed over, once the source has given something. stop ends
// the run if that was changed.
func (p *passed) begin(ctx context.Context, source feed.Source, stop context.CancelCauseFunc) error {
	if p.began {
		return nil
	}
	p.began = true
	followed, ok := source.(*intake.Source)
	if !ok || followed.Passed() == nil {
		return nil
	}
	c := followed.Passed()
	p.check.Go(func() {
		if p.err = followed.Check(ctx); p.err != nil {
			stop(p.err)
		}
	})
	p.summary.Read += int(c.Messages)
	p.term.progress.begin(c.Messages, countMessages)
	p.term.earlier.passOver(c.Line)
	return p.term.service.PassOver(c)
}

// changed waits for the check, and returns an error if what was passed over is not
// what it was, or the run was interrupted before that is known.
func (p *passed) changed() error {
	p.check.Wait()
	return p.err
}
