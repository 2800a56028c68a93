package bench

import (
	"bytes"
	"cmp"
	"regexp"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// Profile is where the processor's time went in a run.
type Profile struct {
	Contender string
	Groups    []Share // of the groups of functions, largest first
	Functions []Share // of single functions, without what they call
}

// Share is a part of the whole, from 0 to 1.
type Share struct {
	Name string
	Part float64
}

// TakeProfile runs the contender on a case for about as long as said, under
// the processor's profiler.
func TakeProfile(c Case, contender Contender, long time.Duration) (Profile, error) {
	rig := NewRig(contender, c.Setup, c.Work, c.Make(streamLen))
	defer rig.Close()
	var raw bytes.Buffer
	if err := pprof.StartCPUProfile(&raw); err != nil {
		return Profile{}, err
	}
	for start := time.Now(); time.Since(start) < long; {
		rig.Run(streamLen)
	}
	pprof.StopCPUProfile()
	p, err := profile.Parse(&raw)
	if err != nil {
		return Profile{}, err
	}
	groups, functions := shares(p)
	return Profile{contender.Name, groups, functions}, nil
}

// shares counts every sample once for a group and once for a function.
func shares(p *profile.Profile) (groups, functions []Share) {
	byGroup, byFunction := make(map[string]float64), make(map[string]float64)
	total := 0.0
	for _, s := range p.Sample {
		value := float64(s.Value[len(s.Value)-1])
		stack := frames(s)
		if len(stack) == 0 {
			continue
		}
		total += value
		byGroup[groupOf(stack)] += value
		byFunction[shortName(stack[0])] += value
	}
	return sorted(byGroup, total), sorted(byFunction, total)
}

// frames returns the names of the functions of a sample, innermost first.
func frames(s *profile.Sample) (names []string) {
	for _, at := range s.Location {
		for _, line := range at.Line {
			if line.Function != nil {
				names = append(names, line.Function.Name)
			}
		}
	}
	return names
}

// functionGroups tells by a part of its name which group a function is in.
// What matches none counts for the function that called it.
var functionGroups = []struct{ part, group string }{
	{"sync.(*WaitGroup)", "handler call"},
	{"bench.Work.handler", "handler call"},
	{"sync.(*Mutex)", "mutex"},
	{"sync.(*Cond)", "channel, condition, wake-up"},
	{"runtime.chan", "channel, condition, wake-up"},
	{"runtime.select", "channel, condition, wake-up"},
	{"runtime.mcall", "scheduler"},
	{"runtime.mstart", "scheduler"},
	{"runtime.sysmon", "scheduler"},
	{"runtime.mallocgc", "allocation, collection"},
	{"runtime.newobject", "allocation, collection"},
	{"runtime.gc", "allocation, collection"},
	{"runtime.bgsweep", "allocation, collection"},
	{"sync.(*Pool)", "task pool"},
	{".spareTask", "task pool"},
	{").reuse", "task pool"},
	{").reset", "task pool"},
	{"dispatcher.(*gate)", "bound on what is pending"},
	{"semaphore.(*Weighted)", "bound on what is pending"},
	{"lockkeys.(*Set", "set: add, remove"},
	{"lockkeys.", "claims and keys"},
	{"dispatcher.", "dispatcher, the rest"},
	{"bench.", "producer, contender's own code"},
}

func groupOf(stack []string) string {
	for _, frame := range stack {
		// A type parameter's name says nothing about the function.
		frame = typeArguments.ReplaceAllString(frame, "")
		for _, g := range functionGroups {
			if strings.Contains(frame, g.part) {
				return g.group
			}
		}
	}
	return "other"
}

var typeArguments = regexp.MustCompile(`\[.*\]`)

// shortName leaves out a function's import path and type arguments.
func shortName(name string) string {
	name = typeArguments.ReplaceAllString(name, "")
	return name[strings.LastIndexByte(name, '/')+1:]
}

func sorted(parts map[string]float64, total float64) (shares []Share) {
	for name, value := range parts {
		shares = append(shares, Share{name, value / total})
	}
	slices.SortFunc(shares, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Part, a.Part), cmp.Compare(a.Name, b.Name))
	})
	return shares
}
