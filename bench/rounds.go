package bench

import (
	"slices"
	"time"
)

// Result is what rounds found out about one contender, per message.
type Result struct {
	Contender string
	NS        float64 // median
	Ratio     float64 // median, over rounds, of its time to that of the first contender
	Allocs    float64
	Bytes     float64
}

// Rounds measures contenders side by side: each round runs all of them once,
// n messages each, so that a change of the machine's mood hits all alike. A
// ratio is taken within a round. The first round warms up and is not counted.
func Rounds(c Case, contenders []Contender, rounds, n int) []Result {
	msgs := c.Make(streamLen)
	rigs := make([]*Rig, len(contenders))
	for i, contender := range contenders {
		rigs[i] = NewRig(contender, c.Setup, c.Work, msgs)
		defer rigs[i].Close()
	}
	times := make([][]float64, len(rigs)) // by contender, then by round
	heaps := make([]heap, len(rigs))
	for round := range rounds + 1 {
		for at := range rigs {
			i := (at + round) % len(rigs)
			before := readHeap()
			elapsed := rigs[i].Run(n)
			after := readHeap()
			if round == 0 {
				continue
			}
			times[i] = append(times[i], float64(elapsed)/float64(n))
			heaps[i].objects += after.objects - before.objects
			heaps[i].bytes += after.bytes - before.bytes
		}
	}
	results := make([]Result, len(rigs))
	total := float64(rounds * n)
	for i, contender := range contenders {
		results[i] = Result{
			Contender: contender.Name,
			NS:        median(times[i]),
			Ratio:     medianRatio(times[i], times[0]),
			Allocs:    heaps[i].objects / total,
			Bytes:     heaps[i].bytes / total,
		}
	}
	return results
}

// streamLen is how many messages are made for rounds without makespan. They
// are given again when used up.
const streamLen = 1 << 14

func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}

func medianRatio(values, bases []float64) float64 {
	ratios := make([]float64, len(values))
	for i, v := range values {
		ratios[i] = v / bases[i]
	}
	return median(ratios)
}

// side measures two functions in turns and returns the medians of the time
// that each takes for one of its n acts, and of the ratio of b to a.
func side(rounds, n int, a, b func(n int)) (perA, perB, ratio float64) {
	var as, bs []float64
	for round := range rounds + 1 {
		var perA, perB float64
		if round%2 == 0 {
			perA, perB = timed(a, n), timed(b, n)
		} else {
			perB, perA = timed(b, n), timed(a, n)
		}
		if round > 0 {
			as, bs = append(as, perA), append(bs, perB)
		}
	}
	return median(as), median(bs), medianRatio(bs, as)
}

func timed(act func(n int), n int) float64 {
	start := time.Now()
	act(n)
	return float64(time.Since(start)) / float64(n)
}
