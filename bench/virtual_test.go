package bench

import (
	"fmt"
	"io"
	"testing"
	"testing/synctest"
)

// The makespan under virtual time: handlers take exactly as long as they say
// and nothing else takes any time, so the ratio is that of the schedule alone.
// No clock of the machine is involved, and so the limits can be held to.
//
// The rows of the table go into RESULTS.md.
func TestVirtualMakespan(t *testing.T) {
	const n = 2000
	out := t.Output()
	fmt.Fprintln(out, "| workload | keys | handler | workers | look-ahead | head-only | sharded |")
	fmt.Fprintln(out, "| --- | ---: | --- | ---: | ---: | ---: | ---: |")
	for _, work := range []Work{Sleep1ms, SleepMix} {
		for _, workers := range []int{8, 32} {
			for _, c := range MakespanCases(work, workers, 10, 100, 1000, 100_000) {
				virtualMakespan(t, out, c, n)
			}
		}
	}
}

func virtualMakespan(t *testing.T, out io.Writer, c Case, n int) {
	var ratios [3]float64
	for i, contender := range []Contender{LookAhead, HeadOnly, Sharded} {
		synctest.Test(t, func(*testing.T) {
			ratios[i] = MeasureMakespan(c, contender, n).Ratio()
		})
	}
	fmt.Fprintf(out, "| %s | %d | %s | %d | %.3f | %.3f | %.3f |\n",
		c.Workload, c.Keys, c.Work.Name, c.Workers, ratios[0], ratios[1], ratios[2])
	if limit := makespanLimit(c.Workers); ratios[0] > limit {
		t.Errorf("%v: makespan ratio %.3f, want at most %.2f", c, ratios[0], limit)
	}
}
