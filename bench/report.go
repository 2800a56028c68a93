package bench

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/interlock-go/interlock/bench/model"
)

// Report measures everything and writes the tables, in Markdown. progress is
// told what is being measured.
func Report(w io.Writer, command string, e Effort, progress func(string)) error {
	r := &report{e: e, progress: progress}
	r.head(command)
	virtual, err := MeasureVirtual()
	if err != nil {
		return err
	}
	if err := r.measureDurable(); err != nil {
		return err
	}
	if err := r.measureRabbit(); err != nil {
		return err
	}
	targets := r.targets(virtual)
	r.contenders()
	r.groups()
	r.timed()
	r.admission()
	r.makespans()
	r.virtual(virtual)
	r.growth()
	r.memory()
	if err := r.ordering(); err != nil {
		return err
	}
	r.broker()
	if err := r.profiles(targets); err != nil {
		return err
	}
	_, err = io.WriteString(w, r.String())
	return err
}

// report is the text so far.
type report struct {
	strings.Builder
	e        Effort
	progress func(string)
	durable  Durable
	rabbit   Rabbit
	model    model.Table
}

func (r *report) line(format string, args ...any) { fmt.Fprintf(r, format+"\n", args...) }

// section begins a section and tells the progress.
func (r *report) section(title string) {
	r.progress(title)
	r.line("\n## %s\n", title)
}

// row writes a row of a table; for the first one, see header.
func (r *report) row(cells ...string) { r.line("| %s |", strings.Join(cells, " | ")) }

func (r *report) header(first string, rest ...string) {
	r.row(append([]string{first}, rest...)...)
	r.line("| --- |%s", strings.Repeat(" ---: |", len(rest)))
}

func (r *report) head(command string) {
	r.line("# Results\n")
	r.line("Written by `%s`. Everything that is compared ran in this one run, in turns.\n", command)
	r.line("- Machine: %s, %d processors, %s/%s, GOMAXPROCS %d", processor(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0))
	r.line("- Go: %s", runtime.Version())
	r.line("- Rounds: %d, each of %d messages for every contender; medians of times and of ratios within a round", r.e.Rounds, r.e.Messages)
	c := NewCase()
	r.line("- If nothing else is said: %v, at most %d messages queued, one producer", c, QueueBound)
}

// processor returns the name of the processor's model, where the system tells.
func processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	for line := range strings.Lines(string(info)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

func (r *report) targets(v Virtual) []Target {
	r.section("Targets")
	targets := Targets(r.e, v, r.durable, r.rabbit, r.model)
	r.header("target", "measured", "wanted", "")
	for _, t := range targets {
		r.row(t.Name, t.Measured, t.Wanted, t.Verdict())
	}
	r.line(`
Admission and release are compared with a number for CockroachDB's spanlatch,
%.1f times the pool with two workers, that we measured earlier, with nothing
else held and a cut-down copy that does slightly less than the real one. Its
licence does not allow to have it here. So the two are not of one run; what
ties them together is the pool, which both runs had.

pond is there in both its forms: pond-go runs a task and forgets it, pond-submit
tells how it ended. "To ours" is in times of what interlock takes for one key.

Allocations count as none below 0.005 a message: buffers are made anew now and
then.`, spanlatchRatio)
	return targets
}

func (r *report) contenders() {
	r.section("Contenders")
	r.row("contender", "promises", "lacks")
	r.row("---", "---", "---")
	for _, c := range Contenders {
		r.row(c.Name, c.Promises, c.Lacks)
	}
	r.line(`
All get the same messages from one producer, with the same number of workers
and the same bound on what is queued; ants has no queue, so there the producer
waits for a worker. Where a contender lacks several keys or hierarchy it takes
a message's first key as a flat one, and so does less work than is asked for.`)
}

func (r *report) groups() {
	for _, g := range Groups() {
		r.section(g.Name)
		times, heaps := make([][]string, len(Contenders)), make([][]string, len(Contenders))
		for _, c := range g.Cases {
			results := Rounds(c, Contenders, r.e.Rounds, r.e.Messages)
			for i, res := range results {
				times[i] = append(times[i], fmt.Sprintf("%.0f (%.2f)", res.NS(), res.To(results[0])))
				heaps[i] = append(heaps[i], fmt.Sprintf("%.2f (%.0f)", res.Allocs, res.Bytes))
			}
		}
		r.line("Nanoseconds per message (times the pool):\n")
		r.table(g, times)
		r.line("\nAllocations per message (bytes):\n")
		r.table(g, heaps)
	}
}

func (r *report) timed() {
	g := TimedGroup()
	r.section(g.Name)
	r.line(`Nanoseconds per message (makespan, as below). A sleep of 10 µs lasts up to 1 ms
if the processors have nothing else to do, so the times of that column say
little; the makespan goes by what it lasted.
`)
	cells := make([][]string, len(Contenders))
	for i, contender := range Contenders {
		for _, c := range g.Cases {
			ratio, ns := MedianMakespan(c, contender, r.e.Runs, r.e.TimedMsgs)
			cells[i] = append(cells[i], fmt.Sprintf("%.0f (%.2f)", ns, ratio))
		}
	}
	r.table(g, cells)
}

// table writes a row for each contender.
func (r *report) table(g Group, cells [][]string) {
	var columns []string
	for _, c := range g.Cases {
		columns = append(columns, g.Label(c))
	}
	r.header("contender", columns...)
	for i, c := range Contenders {
		r.row(append([]string{c.Name}, cells[i]...)...)
	}
}

func (r *report) admission() {
	r.section("Admission and release of one claim")
	r.header("", "ns", "times the pool with 2 workers", "times that with none")
	for _, a := range MeasureAdmission(r.e.Rounds, r.e.Messages) {
		r.row(fmt.Sprintf("%d keys held, %d claims waiting", a.Held, a.Waiting),
			fmt.Sprintf("%.0f", a.NS), fmt.Sprintf("%.2f", a.ToPool), fmt.Sprintf("%.2f", a.ToNone))
	}
}

func (r *report) makespans() {
	contenders := []Contender{LookAhead, HeadOnly, Sharded, KeyedMutex, WorkqueueByKey}
	r.section("Makespan by wall clock")
	r.line(`Elapsed time in times of the larger of the work divided by the workers, and the
longest chain of conflicting messages; %d messages, handlers' times as measured
in the run. The work on processors is divided by those there are, if they are
fewer. Contenders that do not keep conflicting messages apart can be below 1; so
can handlers on processors, since one that is interrupted counts that time too.
`, r.e.TimedMsgs)
	columns := []string{"keys", "handler", "workers"}
	for _, c := range contenders {
		columns = append(columns, c.Name)
	}
	r.header("workload", columns...)
	var cases []Case
	for _, workers := range []int{8, 32} {
		cases = append(cases, MakespanCases(Sleep1ms, workers, 10, 1000)...)
		cases = append(cases, MakespanCases(Sleep10us, workers, 1000)...)
		cases = append(cases, MakespanCases(CPU10us, workers, 1000)...)
	}
	for _, c := range cases {
		cells := []string{c.Workload, fmt.Sprint(c.Keys), c.Work.Name, fmt.Sprint(c.Workers)}
		for _, contender := range contenders {
			runs := 1
			if contender.Name == LookAhead.Name {
				runs = r.e.Runs
			}
			ratio, _ := MedianMakespan(c, contender, runs, r.e.TimedMsgs)
			cells = append(cells, fmt.Sprintf("%.2f", ratio))
		}
		r.row(cells...)
	}
}

func (r *report) virtual(v Virtual) {
	r.section("Makespan under virtual time")
	r.line(`The same ratio where handlers take exactly as long as they say and nothing else
takes any time: that of the schedule alone.
`)
	for _, line := range v.Table {
		r.line("%s", line)
	}
}

func (r *report) growth() {
	r.section("Waiting")
	r.line(`Nanoseconds per message, submission included, where all messages pile up behind
one that holds a key above all of theirs. Ratio: the dearest to the first.

- window: %d messages wait, as many are considered as the window allows.
- backlog: messages are queued and none of them is considered yet.
- the others: messages that all wait for one another, beside as many that do so
  in small groups. That is the pattern alone; few messages in all are cheaper
  than either, since the memory for them fits a cache and is used again.
`, 1<<17)
	r.row("pattern", "variant: ns", "ratio")
	r.row("---", "---", "---:")
	all := []Growth{MeasureWindows(r.e.GrowthRounds), MeasureBacklogs(r.e.GrowthRounds)}
	for _, p := range Patterns {
		all = append(all, MeasurePattern(p, r.e.GrowthRounds))
	}
	for _, g := range all {
		var costs []string
		for i, v := range g.Variants {
			costs = append(costs, fmt.Sprintf("%s: %.0f", v, g.NS(i)))
		}
		r.row(g.Name, strings.Join(costs, "; "), fmt.Sprintf("%.2f", g.Worst()))
	}
}

func (r *report) memory() {
	r.section("Memory")
	m := MeasureMemory(r.e.MemoryMsgs)
	r.line("%d messages, each with a key of its own, of four segments: the heap in use was\n%.1f MB before, at most %.1f MB on the way, %.1f MB after.",
		m.Messages, m.Before, m.Peak, m.After)
}

// profiles shows where the time goes, if any target is missed.
func (r *report) profiles(targets []Target) error {
	missed := false
	for _, t := range targets {
		missed = missed || !t.Met
	}
	if !missed {
		return nil
	}
	r.section("Where the time goes, for the targets missed")
	for _, c := range []Case{NewCase(), NewCase().With("transfer")} {
		p, err := TakeProfile(c, LookAhead, 3*time.Second)
		if err != nil {
			return err
		}
		r.line("%s, %v:\n", p.Contender, c)
		r.header("group of functions", "share")
		r.shares(p.Groups)
		r.line("")
		r.header("function, without what it calls", "share")
		r.shares(p.Functions[:min(15, len(p.Functions))])
		r.line("")
	}
	return nil
}

func (r *report) shares(shares []Share) {
	for _, s := range shares {
		r.row(s.Name, fmt.Sprintf("%.1f %%", 100*s.Part))
	}
}
