package measure

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/interlock-go/interlock/examples/failover/internal/feed"
)

// Column is what was measured of a way.
type Column struct {
	Name    string
	Outages Figures
}

// Table compares ways with each other and with published figures. The first
// column is the base of the latencies, the last one is compared with the
// targets. The latencies without outages are of the same ways in the same order.
type Table struct {
	Columns []Column
	InTurn  Rounds // keys take turns
	Random  Rounds // keys are drawn
}

// Targets for the last column.
const (
	TargetRecovery = 100 * time.Millisecond
	TargetOverhead = 0.01
)

// row is a line of the table: the published base and proposal, the measured
// ways, the target.
type row struct {
	name           string
	base, proposed string
	measured       func(t *Table, way int) string
	target         string
}

const none = "-"

var rows = []row{
	{"delivered, %", "95.3-95.5", "99.8-99.9", func(t *Table, i int) string {
		return percent(t.Columns[i].Outages.DeliveredShare(), 2)
	}, "100"},
	{"order coefficient, %", "93.7", "99.65-99.74", func(t *Table, i int) string {
		return percent(t.Columns[i].Outages.Order(), 2)
	}, "100"},
	{"duplicates applied", none, none, func(t *Table, i int) string {
		return fmt.Sprint(t.Columns[i].Outages.Duplicates)
	}, "0"},
	{"MTTR, ms", "957", "263", func(t *Table, i int) string {
		return millis(Mean(t.Columns[i].Outages.Recoveries), 0)
	}, "< 100"},
	{"  the longest", none, none, func(t *Table, i int) string {
		return millis(Quantile(sorted(t.Columns[i].Outages.Recoveries), 1), 0)
	}, ""},
	{"mean latency in normal operation, ms", none, "+1.6-1.8", func(t *Table, i int) string {
		return millis(t.InTurn.Latency(i), 2)
	}, ""},
	{"  more than the first, %", none, "+3.7", func(t *Table, i int) string { return overhead(t.InTurn, i) }, "< 1"},
	{"  the same with random keys, ms", none, none, func(t *Table, i int) string {
		return millis(t.Random.Latency(i), 2)
	}, ""},
	{"  more than the first, %", none, none, func(t *Table, i int) string { return overhead(t.Random, i) }, ""},
	{"mean latency with outages, ms", none, none, func(t *Table, i int) string {
		return millis(Mean(t.Columns[i].Outages.Latencies), 1)
	}, ""},
	{"  99 % within, ms", none, none, func(t *Table, i int) string {
		return millis(Quantile(t.Columns[i].Outages.Latencies, 0.99), 0)
	}, ""},
	{"by HTTP, %", none, "4.4-4.7", func(t *Table, i int) string {
		return percent(t.Columns[i].Outages.ChannelShare(feed.HTTP), 1)
	}, ""},
	{"  asked for again, %", none, none, func(t *Table, i int) string {
		return percent(t.Columns[i].Outages.ChannelShare(feed.Replay), 1)
	}, ""},
}

// Write prints the table.
func (t *Table) Write(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(cells ...string) { fmt.Fprintln(table, strings.Join(cells, "\t")) }
	head := []string{"", "published base", "proposed"}
	for _, c := range t.Columns {
		head = append(head, "here: "+c.Name)
	}
	line(append(head, "target")...)
	for _, r := range rows {
		cells := []string{r.name, r.base, r.proposed}
		for i := range t.Columns {
			cells = append(cells, r.measured(t, i))
		}
		line(append(cells, r.target)...)
	}
	return table.Flush()
}

// Verdicts tell whether the last column has met the targets. Good is false if
// an event of it was lost, doubled or out of order.
func (t *Table) Verdicts() (lines []string, good bool) {
	last := len(t.Columns) - 1
	f := t.Columns[last].Outages
	mttr := Mean(f.Recoveries)
	median, low, high := t.InTurn.Overhead(last, 0)
	good = f.Delivered == f.Sent && f.Ordered == f.Delivered && f.Duplicates == 0
	verdict := func(met bool, format string, args ...any) {
		word := "missed"
		if met {
			word = "met"
		}
		lines = append(lines, fmt.Sprintf("%-7s ", word)+fmt.Sprintf(format, args...))
	}
	verdict(f.Delivered == f.Sent, "all delivered: %d of %d events", f.Delivered, f.Sent)
	verdict(f.Ordered == f.Delivered, "all in order: %d of %d", f.Ordered, f.Delivered)
	verdict(f.Duplicates == 0, "nothing twice: %d duplicates applied", f.Duplicates)
	if len(f.Recoveries) > 0 {
		verdict(mttr < float64(TargetRecovery), "MTTR under %v: %s ms in %d outages, %s to %s", TargetRecovery, millis(mttr, 1), len(f.Recoveries),
			millis(Quantile(sorted(f.Recoveries), 0), 0), millis(Quantile(sorted(f.Recoveries), 1), 0))
	}
	if f.Unrecovered > 0 {
		verdict(false, "recovered each time: after %d outages no later event came", f.Unrecovered)
	}
	if len(t.InTurn) > 0 {
		verdict(median < TargetOverhead, "latency at most 1 %% more: %s %%, the median of %d rounds from %s to %s %%", signed(median), len(t.InTurn), signed(low), signed(high))
	}
	return lines, good
}

func overhead(r Rounds, way int) string {
	if way == 0 {
		return none
	}
	median, _, _ := r.Overhead(way, 0)
	return signed(median)
}

func percent(share float64, digits int) string { return number(100*share, digits) }

// signed is percent with a sign.
func signed(share float64) string {
	if math.IsNaN(share) {
		return none
	}
	return fmt.Sprintf("%+.1f", 100*share)
}

func millis(d float64, digits int) string { return number(d/float64(time.Millisecond), digits) }

func number(x float64, digits int) string {
	if math.IsNaN(x) {
		return none
	}
	return fmt.Sprintf("%.*f", digits, x)
}
