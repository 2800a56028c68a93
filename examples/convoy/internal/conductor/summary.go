package conductor

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
)

// Write writes the summary.
func (r *Result) Write(w io.Writer) {
	n := r.Script.Good
	took := r.ended.Sub(r.began)
	rate := float64(n) / took.Seconds()
	fmt.Fprintf(w, "%s transactions of %s orders came in %d ledger messages and were fanned out into %d queues.\n",
		humanize.Comma(int64(n)), humanize.Comma(int64(len(r.Script.Orders))), len(r.Script.Ledgers), r.Site.Queues)
	fmt.Fprintf(w, "All were applied %.1f s after the first ledger message was sent: %s a second, %s in each queue.\n\n",
		took.Seconds(), humanize.Comma(int64(rate)), humanize.Comma(int64(rate)/int64(r.Site.Queues)))

	fmt.Fprintln(w, "Who was there, in seconds from the first ledger message:")
	r.writeProcesses(w)
	fmt.Fprintln(w, "\nWho owned which queue, from the first run to the last. The gap is from the last run of the owner before:")
	r.writeTerms(w)

	fmt.Fprintln(w, "\nRefused:")
	for _, refusal := range r.refusals {
		fmt.Fprintf(w, "  %s\n", refusal)
	}
	fmt.Fprintln(w, "\nChecked:")
	for _, c := range r.checks {
		verdict := "yes"
		if c.problem != nil {
			verdict = "NO "
		}
		fmt.Fprintf(w, "  %s  %s\n", verdict, c.text)
		if c.problem != nil {
			fmt.Fprintf(w, "       %v\n", c.problem)
		}
	}
}

// A table that cannot be written shows by what is missing, as all that is
// written here.
func table(w io.Writer, rows func(row func(format string, args ...any))) {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	rows(func(format string, args ...any) { fmt.Fprintf(t, "  "+format+"\n", args...) })
	_ = t.Flush()
}

func (r *Result) writeProcesses(w io.Writer) {
	table(w, func(row func(string, ...any)) {
		row("process\tfrom\tto\thow it left")
		for _, c := range r.children {
			row("%s\t%.2f\t%.2f\t%s", c.name, r.since(c.joined), r.since(c.gone), c.left)
		}
	})
}

func (r *Result) writeTerms(w io.Writer) {
	table(w, func(row func(string, ...any)) {
		row("queue\towner\tfrom\tto\truns\tgap")
		for i, t := range r.terms {
			gap := ""
			if i > 0 && r.terms[i-1].queue == t.queue {
				gap = fmt.Sprintf("%.1f ms", float64(t.first.Sub(r.terms[i-1].last).Microseconds())/1000)
			}
			row("%d\t%s\t%.2f\t%.2f\t%d\t%s", t.queue, t.worker, r.since(t.first), r.since(t.last), t.transactions, gap)
		}
	})
}

func (r *Result) since(at time.Time) float64 { return at.Sub(r.began).Seconds() }
