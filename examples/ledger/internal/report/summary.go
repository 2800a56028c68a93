package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	humanize "github.com/dustin/go-humanize"

	"github.com/interlock-go/interlock/examples/ledger/internal/audit"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// Summary is what there is to say at the end of a run.
type Summary struct {
	Input     string // where the messages came from
	Read      int    // messages that were handed over
	Before    int    // of those, the ones that were done before: in an earlier run, or as another copy
	Held      int    // of those, the ones that wait for messages that did not come
	Refused   int    // of those, the ones that can never run for their numbers
	Left      int    // of those, the ones that did not run before the end
	Gone      int    // held messages that were given up, since they can never run for their numbers
	Revived   int    // messages that ran without having been read: held earlier, or got by a replay
	Malformed int    // parts of the input that were no messages
	// Served says that the run was that of a service, which rejects what must
	// be rejected, so that a rejection is no fault of the run.
	Served bool
	// TakenOver says that another program has the database by now, so that what
	// is there is not this run's.
	TakenOver bool
	// Empty says that the input had nothing in it, not even something malformed.
	Empty bool

	Audit *audit.Audit
	// Earlier is what became of messages that were done before, if that is worth
	// telling again. Default: nothing.
	Earlier *audit.Outcomes
	Elapsed time.Duration
	Workers int
	Policy  string
	Latency time.Duration

	Store     string      // what it is
	Stats     store.Stats // what it did
	Journaled int         // messages that the journal gained
	Balances  []Balance

	// Restart is how long after the start of the program the first message
	// ended that was not done before; 0 if none was or none was left.
	Restart time.Duration
	// Waiting are the streams on which messages are missing.
	Waiting []ordering.Parking

	SpeedUp SpeedUp
	Rejects string // where malformed and rejected messages were kept
	Failure error  // what ended the run early
}

// SpeedUp compares many workers with one, on the first messages of the run.
type SpeedUp struct {
	Messages int
	Workers  int
	Together time.Duration // with the workers
	Alone    time.Duration // with one
	Missing  string        // why there is no such comparison
}

// Check is something that must hold.
type Check struct {
	OK   bool
	Text string
	More []string // what is wrong
}

// Checks tells what was checked, and whether it holds.
func (s *Summary) Checks() []Check {
	o, order, money := &s.Audit.Outcomes, &s.Audit.Order, s.Audit.Money
	earlier := s.earlier()
	unmet := o.Count[audit.Unmet] + earlier.Count[audit.Unmet]
	ended, applied := o.Total(), o.Count[audit.Applied]+o.Count[audit.NotRejected]
	checks := []Check{{
		OK: s.complete(ended) && s.Audit.Missing() == 0 && (s.Journaled == applied || s.TakenOver),
		Text: fmt.Sprintf("nothing lost or doubled: %s read, %s%s%s ended, %s applied, %s in the journal",
			count(s.Read), s.before(), s.left(), count(ended), count(applied), count(s.Journaled)),
	}, {
		OK: order.Violations == 0,
		Text: fmt.Sprintf("order: %s pairs of conflicting requests, each in order and none at once",
			humanize.Comma(int64(order.Pairs))),
		More: texts(order.First),
	}, {
		OK:   s.Audit.Numbers.Violations == 0,
		Text: fmt.Sprintf("numbers: %s, each by rising numbers", plural(s.Audit.Numbers.Streams(), "stream", "streams")),
		More: s.Audit.Numbers.First,
	}, {
		OK:   unmet == 0,
		Text: fmt.Sprintf("expectations: %s held; not met in %s", count(o.Held), plural(unmet, "message", "messages")),
	}}
	if !s.TakenOver {
		checks = slices.Insert(checks, 3, Check{
			OK:   len(money.Problems) == 0,
			Text: fmt.Sprintf("money conserved in %s, at %s and at the end", plural(money.Commodities(), "commodity", "commodities"), plural(money.Closings, "end of day", "ends of day")),
			More: money.Problems,
		})
	}
	if n := s.Refused + s.Gone; n > 0 {
		checks = append(checks, Check{Text: fmt.Sprintf("numbers that contradict each other: %s", plural(n, "message", "messages"))})
	}
	if len(s.Waiting) > 0 {
		checks = append(checks, Check{
			Text: fmt.Sprintf("messages that did not come: %s cannot go on", plural(len(s.Waiting), "stream", "streams")),
			More: s.waiting(),
		})
	}
	if !s.Served {
		expected := o.Count[audit.RejectedAsExpected] + earlier.Count[audit.RejectedAsExpected]
		unexpected := o.Count[audit.Rejected] + o.Count[audit.NotRejected] + earlier.Count[audit.Rejected]
		checks = append(checks, Check{
			OK:   unexpected == 0,
			Text: fmt.Sprintf("rejected: %s as expected, %s otherwise", count(expected), count(unexpected)),
		}, Check{
			OK:   s.Malformed == 0,
			Text: fmt.Sprintf("malformed: %s of the input", plural(s.Malformed, "part", "parts")),
		})
	}
	if s.Empty {
		checks = append(checks, Check{Text: "the input is empty: if it should not be, it was cut, or not written yet"})
	}
	if s.Failure != nil {
		checks = append(checks, Check{Text: "run to its end", More: []string{s.Failure.Error()}})
	}
	return checks
}

func (s *Summary) earlier() *audit.Outcomes {
	if s.Earlier == nil {
		return &audit.Outcomes{}
	}
	return s.Earlier
}

// complete reports whether all that was read, and nothing else, has ended in one
// way or another.
func (s *Summary) complete(ended int) bool {
	return ended+s.Before+s.Held+s.Refused+s.Left == s.Read+s.Revived
}

func (s *Summary) before() string {
	if s.Before == 0 {
		return ""
	}
	return count(s.Before) + " done before, "
}

func (s *Summary) left() string {
	if s.Left == 0 {
		return ""
	}
	return count(s.Left) + " not run, "
}

// waiting describes the first streams that cannot go on.
func (s *Summary) waiting() (lines []string) {
	const most = 5
	for _, p := range s.Waiting[:min(len(s.Waiting), most)] {
		lines = append(lines, fmt.Sprintf("%s: %s", p.Reason, p.Error))
	}
	return lines
}

// Good reports whether every check holds.
func (s *Summary) Good() bool {
	for _, c := range s.Checks() {
		if !c.OK {
			return false
		}
	}
	return true
}

// Write writes the summary for people.
func (s *Summary) Write(w io.Writer) error {
	p := &page{w: w}
	s.writeRun(p)
	s.writeContention(p)
	s.writeReasons(p, "not applied", &s.Audit.Outcomes)
	s.writeReasons(p, "not applied in an earlier run", s.earlier())
	s.writeBalances(p)
	p.heading("checks")
	for _, c := range s.Checks() {
		p.row("  %s %s", mark(c.OK), c.Text)
		for _, more := range c.More {
			p.row("      %s", strings.ReplaceAll(more, "\n", "\n      "))
		}
	}
	p.row("")
	return p.err
}

func (s *Summary) writeRun(p *page) {
	o := &s.Audit.Outcomes
	p.row("")
	p.fact("input", s.Input)
	p.fact("messages", fmt.Sprintf("%s: %s%s applied, %s rejected, %s malformed", count(s.Read), s.before(),
		count(o.Count[audit.Applied]+o.Count[audit.NotRejected]),
		count(o.Count[audit.Rejected]+o.Count[audit.RejectedAsExpected]+o.Count[audit.Unmet]), count(s.Malformed)))
	p.fact("dispatch", fmt.Sprintf("%s, %s%s", plural(s.Workers, "worker", "workers"), s.Policy, s.latency()))
	p.fact("throughput", fmt.Sprintf("%s messages/s: all in %s", count(perSecond(o.Total(), s.Elapsed)), roundDuration(s.Elapsed)))
	if s.Restart > 0 {
		p.fact("restart", fmt.Sprintf("the first message that was not done before ended after %s", roundDuration(s.Restart)))
	}
	p.fact("speed-up", s.SpeedUp.String())
	perCommit := float64(s.Stats.Messages) / max(float64(s.Stats.Commits), 1)
	p.fact("store", fmt.Sprintf("%s: %s, %.1f messages in each", s.Store,
		plural(int(s.Stats.Commits), "commit", "commits"), perCommit))
	if s.Rejects != "" {
		p.fact("rejects", s.Rejects)
	}
}

func (s *Summary) latency() string {
	if s.Latency == 0 {
		return ""
	}
	return fmt.Sprintf(", each handler waiting %s", s.Latency)
}

// String says what was measured.
func (u SpeedUp) String() string {
	if u.Missing != "" {
		return "not measured: " + u.Missing
	}
	return fmt.Sprintf("%.1f× over one worker: the first %s messages, run again on scratch stores of\n"+
		"the same kind, took %s with one worker and %s with %d",
		u.Alone.Seconds()/u.Together.Seconds(), count(u.Messages), roundDuration(u.Alone), roundDuration(u.Together), u.Workers)
}

func (s *Summary) writeContention(p *page) {
	c := &s.Audit.Contention
	top := c.Top(5)
	if len(top) == 0 {
		return
	}
	p.heading(fmt.Sprintf("most contended keys (%s of %s messages had to wait)", count(c.Waited), count(s.Read)))
	for _, k := range top {
		p.row("  %-36s %9s waited  %10s each", shorten(keyName(k.Key), 36), count(k.Count), roundDuration(k.Time/time.Duration(k.Count)))
	}
}

func (s *Summary) writeReasons(p *page, heading string, outcomes *audit.Outcomes) {
	reasons := outcomes.Reasons()
	if len(reasons) == 0 {
		return
	}
	p.heading(heading)
	for _, why := range reasons {
		expected := ""
		if why.Verdict == audit.RejectedAsExpected {
			expected = ", as expected"
		}
		place := ""
		switch {
		case why.Line > 0:
			place = fmt.Sprintf("line %d: ", why.Line)
		case why.ID > 0:
			place = fmt.Sprintf("message %d: ", why.ID)
		}
		p.row("  %9s  %s%s", count(why.Count), why.Reason, expected)
		p.row("             such as %s%s", place, why.Example)
	}
}

func (s *Summary) writeBalances(p *page) {
	top, largest := topLevel(s.Balances), largestOwn(s.Balances, 5)
	places := placesOf(s.Balances)
	if len(top) == 0 {
		return
	}
	p.heading("balances of the top-level accounts, with all below them")
	last := book.Root
	for _, b := range top {
		name := ""
		if b.Account != last {
			name, last = shorten(string(b.Account), 36), b.Account
		}
		p.row("  %-36s %22s %s", name, grouped(b.Subtree, places[b.Commodity]), b.Commodity)
	}
	p.heading("largest balances of single accounts")
	for _, b := range largest {
		p.row("  %-36s %22s %s", shorten(string(b.Account), 36), grouped(b.Own, places[b.Commodity]), b.Commodity)
	}
}

func keyName(k lockkeys.Key) string {
	if k.IsRoot() {
		return "/ (the whole book)"
	}
	return k.String()
}

func perSecond(n int, d time.Duration) int { return int(float64(n) / max(d.Seconds(), 1e-9)) }
