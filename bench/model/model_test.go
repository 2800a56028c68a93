package model

import (
	"context"
	"flag"
	"fmt"
	"math"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

var length = flag.Float64("length", 0.05, "how long scenarios are, in times of the full ones")

// The model against the sequencer. Short runs have not settled, so what they
// are held to is generous, and the standard error counts too.
func TestModel(t *testing.T) {
	rows, err := Compare(*length, func(run func(ctx context.Context)) {
		synctest.Test(t, func(t *testing.T) { run(t.Context()) })
	})
	require.NoError(t, err)
	out := t.Output()
	fmt.Fprintln(out, "| scenario | quantity | predicted | measured | off |\n| --- | --- | ---: | ---: | ---: |")
	worst := 0.0
	for _, r := range rows {
		fmt.Fprintln(out, r)
		if r.Holds {
			worst = max(worst, math.Abs(r.Off()))
			require.False(t, math.IsNaN(r.Measured.Mean), "%v", r)
			require.InDelta(t, r.Predicted, r.Measured.Mean, 0.25*r.Predicted+4*r.Measured.Error, "%v", r)
		}
	}
	fmt.Fprintf(out, "off by at most %.1f %% where the model is meant to hold\n", 100*worst)
}
