package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/examples/ledger/internal/audit"
	"github.com/interlock-go/interlock/examples/ledger/internal/feed"
	"github.com/interlock-go/interlock/examples/ledger/internal/report"
)

// The example of the paper that the method comes from: X1 is above X2 and X3,
// Y1 above Y2 and Y3, and xy needs both. Every handler takes 50 ms of the
// bubble's clock, so that the schedule is exact.
func TestPaperExample(t *testing.T) {
	for policy, want := range map[dispatcher.Policy]map[string]time.Duration{
		// Figure 4: the x and the y messages run side by side.
		dispatcher.LookAhead(4096): {
			"x1": 0, "x2": 50, "x3": 100, "x4": 150,
			"y1": 0, "y2": 50, "y3": 100,
			"xy": 200, "x5": 250, "y4": 250,
		},
		// Figure 6: y2 could start at 50, and stands behind x3, which cannot.
		dispatcher.HeadOnly(): {
			"x1": 0, "x2": 50, "x3": 100, "x4": 150,
			"y1": 0, "y2": 100, "y3": 150,
			"xy": 200, "x5": 250, "y4": 250,
		},
	} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := map[string]time.Duration{}
				start := time.Now()
				for _, r := range runPaper(t, policy) {
					got[r.Message.ID] = r.Run.Start.Sub(start) / time.Millisecond
					assert.Equal(t, 50*time.Millisecond, r.Run.Took(), r.Message.ID)
				}
				assert.Equal(t, want, got)
			})
		})
	}
}

func runPaper(t *testing.T, policy dispatcher.Policy) []audit.Record {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "paper.ndjson"))
	require.NoError(t, err)
	defer file.Close()
	o := &options{db: "memory", workers: 4, policy: policy, latency: 50 * time.Millisecond}
	s, err := o.begin(context.Background(), io.Discard, &input{}, nil)
	require.NoError(t, err)
	summary := &report.Summary{}
	require.NoError(t, s.readAll(context.Background(), feed.NewNDJSON(file), summary))
	require.NoError(t, s.close())
	require.Equal(t, 10, summary.Read)
	require.Zero(t, s.audit.Order.Violations)
	return s.audit.Early
}
