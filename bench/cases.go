package bench

import (
	"fmt"
	"slices"
)

// Group is cases that differ in one thing.
type Group struct {
	Name  string
	Cases []Case
	Label func(c Case) string // what differs
}

// Groups are the cases of which the cost per message is compared: each is the
// case of NewCase but for one thing.
func Groups() []Group {
	return []Group{
		vary("Workloads", Workloads, func(c *Case, w string) { c.Workload = w },
			func(c Case) string { return c.Workload }),
		vary("Numbers of keys", []int{10, 100, 1000, 10_000, 1_000_000}, func(c *Case, n int) { c.Keys = n },
			func(c Case) string { return fmt.Sprintf("keys=%d", c.Keys) }),
		vary("Depths of keys", []int{2, 4, 8}, func(c *Case, n int) { c.Depth = n },
			func(c Case) string { return fmt.Sprintf("depth=%d", c.Depth) }),
		vary("Workers", []int{1, 2, 8, 32, 128, 1024}, func(c *Case, n int) { c.Workers = n },
			func(c Case) string { return fmt.Sprintf("workers=%d", c.Workers) }),
	}
}

// TimedGroup is the cases with handlers that take time.
func TimedGroup() Group {
	return vary("Handlers that take time", []Work{Sleep10us, CPU10us, Sleep1ms}, func(c *Case, w Work) { c.Work = w },
		func(c Case) string { return "handler=" + c.Work.Name })
}

func vary[T any](name string, values []T, set func(*Case, T), label func(Case) string) Group {
	g := Group{Name: name, Label: label}
	for _, v := range values {
		c := NewCase()
		set(&c, v)
		g.Cases = append(g.Cases, c)
	}
	return g
}

// Cases are all of them, each once.
func Cases() (cases []Case) {
	seen := make(map[string]bool)
	for _, g := range append(Groups(), TimedGroup()) {
		cases = append(cases, slices.DeleteFunc(g.Cases, func(c Case) bool {
			again := seen[c.String()]
			seen[c.String()] = true
			return again
		})...)
	}
	return cases
}

// MakespanCases are the cases of which the makespan is measured, for a
// handler: every workload with different numbers of keys.
func MakespanCases(w Work, workers int, keys ...int) (cases []Case) {
	for _, n := range keys {
		for _, workload := range Workloads {
			c := NewCase().With(workload)
			c.Keys, c.Workers, c.Work = n, workers, w
			cases = append(cases, c)
		}
	}
	return cases
}
