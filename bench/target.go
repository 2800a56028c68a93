package bench

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/interlock-go/interlock/bench/model"
)

// Target is one thing that this project wants to be, and whether it is.
type Target struct {
	Name     string
	Measured string
	Wanted   string
	Met      bool
}

// Verdict returns "met" or "missed".
func (t Target) Verdict() string {
	if t.Met {
		return "met"
	}
	return "missed"
}

func atMost(name string, value, limit float64, unit string) Target {
	return Target{name, number(value, unit), "≤ " + number(limit, unit), value <= limit}
}

func atLeast(name string, value, limit float64, unit string) Target {
	return Target{name, number(value, unit), "≥ " + number(limit, unit), value >= limit}
}

// number writes a value with its unit: "×" for ratios.
func number(value float64, unit string) string { return fmt.Sprintf("%.2f %s", value, unit) }

// Effort is how long to measure.
type Effort struct {
	Rounds       int // of contenders side by side
	Messages     int // per round and contender
	Runs         int // of a makespan
	TimedMsgs    int // per run of a makespan
	GrowthRounds int
	MemoryMsgs   int
	TableRounds  int // of contenders that write into a database
	TableMsgs    int // per such round
}

// Efforts.
var (
	Short = Effort{Rounds: 15, Messages: 40_000, Runs: 1, TimedMsgs: 2000, GrowthRounds: 3, MemoryMsgs: 5_000_000, TableRounds: 5, TableMsgs: 2000}
	Full  = Effort{Rounds: 15, Messages: 80_000, Runs: 3, TimedMsgs: 2000, GrowthRounds: 7, MemoryMsgs: 5_000_000, TableRounds: 9, TableMsgs: 4000}
)

// Targets measures everything that there is a target for, but for what is
// measured in virtual time or needs a server, which is given.
func Targets(e Effort, v Virtual, d Durable, r Rabbit, m model.Table) []Target {
	var all []Target
	all = append(all, allocTargets(e)...)
	all = append(all, peerTargets(e)...)
	all = append(all, admissionTargets(e)...)
	all = append(all, makespanTargets(e)...)
	all = append(all, virtualTargets(v)...)
	all = append(all, growthTargets(e)...)
	all = append(all, memoryTarget(e))
	all = append(all, d.Targets()...)
	all = append(all, r.Targets()...)
	return append(all, modelTargets(m)...)
}

// allocTargets: nothing is allocated for a message.
func allocTargets(e Effort) (targets []Target) {
	for _, contender := range []Contender{LookAhead, HeadOnly} {
		for _, workload := range []string{"uniform", "transfer"} {
			c := NewCase().With(workload)
			rig := NewRig(contender, c.Setup, c.Work, c.Make(streamLen))
			n := e.Rounds * e.Messages
			rig.Run(n)
			before := readHeap()
			rig.Run(n)
			perMessage := (readHeap().objects - before.objects) / float64(n)
			rig.Close()
			keys := len(c.Make(1)[0].Keys)
			t := atMost(fmt.Sprintf("allocations, %s, keys=%d", contender.Name, keys), perMessage, 0, "per message")
			t.Met = perMessage < 0.005 // buffers are made anew now and then
			targets = append(targets, t)
		}
	}
	return targets
}

// peerTargets: what a message costs beside others who hand out messages.
func peerTargets(e Effort) (targets []Target) {
	one := Rounds(NewCase(), Contenders, e.Rounds, e.Messages)
	two := Rounds(NewCase().With("transfer"), []Contender{Floor, LookAhead, HeadOnly}, e.Rounds, e.Messages)
	ours := of(one, LookAhead)
	targets = append(targets,
		atMost("one key, to pool", ours.To(of(one, Floor)), 1.5, "×"),
		atMost("one key, to pool, head-only", of(one, HeadOnly).To(of(one, Floor)), 1.5, "×"),
		atMost("one key, to sharded channels", ours.To(of(one, Sharded)), 1, "×"),
		atMost("one key, to a queue for each key", ours.To(of(one, KeyedQueues)), 1, "×"),
		atMost("two keys, to pool", of(two, LookAhead).To(of(two, Floor)), 2.5, "×"),
		atMost("two keys, to pool, head-only", of(two, HeadOnly).To(of(two, Floor)), 2.5, "×"),
	)
	for _, peer := range []struct {
		Contender
		times float64
	}{{Workqueue, 2}, {WorkqueueByKey, 2}, {Ants, 4}, {PondSubmit, 4}, {PondGo, 4}} {
		targets = append(targets, atLeast(peer.Name+", to ours", of(one, peer.Contender).To(ours), peer.times, "×"))
	}
	return targets
}

// of returns a contender's result.
func of(results []Result, c Contender) Result {
	for _, r := range results {
		if r.Contender == c.Name {
			return r
		}
	}
	panic("bench: no result for " + c.Name)
}

// admissionTargets: what admitting and releasing a claim costs.
func admissionTargets(e Effort) (targets []Target) {
	for _, a := range MeasureAdmission(e.Rounds, e.Messages) {
		switch {
		case a.Held == 0 && a.Waiting == 0:
			targets = append(targets, atMost("admit + release, to pool (spanlatch ÷ 4)", a.ToPool, spanlatchRatio/4, "×"))
		case a.Held == 10_000:
			targets = append(targets, atMost("admit + release, 10,000 held, to none", a.ToNone, 2, "×"))
		case a.Waiting == 10_000:
			targets = append(targets, atMost("admit + release, 10,000 waiting, to none", a.ToNone, 2, "×"))
		}
	}
	return targets
}

// makespanTargets: how near to the best possible schedule, by wall clock. The
// worst workload counts.
func makespanTargets(e Effort) (targets []Target) {
	for _, workers := range []int{8, 32} {
		worst := make(map[string]float64)
		at := make(map[string]string)
		for _, workload := range Workloads {
			c := NewCase().With(workload)
			c.Workers, c.Work = workers, Sleep1ms
			for _, contender := range []Contender{LookAhead, HeadOnly} {
				r, _ := MedianMakespan(c, contender, e.Runs, e.TimedMsgs)
				if r > worst[contender.Name] {
					worst[contender.Name], at[contender.Name] = r, workload
				}
			}
		}
		t := atMost(fmt.Sprintf("makespan, 1 ms, workers=%d, worst of %d workloads", workers, len(Workloads)),
			worst[LookAhead.Name], makespanLimit(workers), "×")
		t.Measured += fmt.Sprintf(" (%s; head-only %.2f, %s)", at[LookAhead.Name], worst[HeadOnly.Name], at[HeadOnly.Name])
		targets = append(targets, t)
	}
	return targets
}

// virtualTargets: the same of the schedule alone, exactly.
func virtualTargets(v Virtual) (targets []Target) {
	for _, workers := range slices.Sorted(maps.Keys(v.Worst)) {
		worst := v.Worst[workers]
		t := atMost(fmt.Sprintf("makespan, virtual time, workers=%d, worst workload", workers), worst.LookAhead, makespanLimit(workers), "×")
		t.Measured += fmt.Sprintf(" (head-only %.2f)", worst.HeadOnly)
		targets = append(targets, t)
	}
	return targets
}

// makespanLimit is the makespan ratio wanted of look-ahead.
func makespanLimit(workers int) float64 {
	if workers > 8 {
		return 1.10
	}
	return 1.05
}

// growthTargets: what a message costs does not depend on how many wait.
func growthTargets(e Effort) (targets []Target) {
	window := MeasureWindows(e.GrowthRounds)
	targets = append(targets, atMost("window 16 to 65,536, dearest to first", window.Worst(), 1.5, "×"))
	for _, p := range Patterns {
		g := MeasurePattern(p, e.GrowthRounds)
		t := atMost(fmt.Sprintf("%s, %d to groups of %d", p.Name, p.Total, p.Group), g.Ratio(allInOne, inGroups), 1.5, "×")
		t.Measured += fmt.Sprintf(" (to %d in all: %.2f)", few, g.Ratio(allInOne, fewInOne))
		targets = append(targets, t)
	}
	return targets
}

// memoryTarget: nothing stays of keys that are not used any more.
func memoryTarget(e Effort) Target {
	m := MeasureMemory(e.MemoryMsgs)
	return atMost(fmt.Sprintf("heap left after %d keys", m.Messages), m.After-m.Before, 4, "MB")
}

// WriteTargets writes one line for each target.
func WriteTargets(w io.Writer, targets []Target) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, t := range targets {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", t.Name, t.Measured, t.Wanted, t.Verdict())
	}
	return tw.Flush()
}
