package bench

import (
	"runtime"
	"time"

	"github.com/interlock-go/interlock/bench/internal/stat"
)

// Result is what rounds found out about one contender, per message.
type Result struct {
	Contender string
	Allocs    float64
	Bytes     float64
	times     []float64 // in nanoseconds, by round
}

// NS returns the nanoseconds for a message, in the median round.
func (r Result) NS() float64 { return stat.Median(r.times) }

// To returns how many times as long it took as base did in the same round; in
// the median round.
func (r Result) To(base Result) float64 { return stat.Ratio(r.times, base.times) }

// Rounds measures contenders side by side: each round runs all of them once,
// n messages each, so that a change of the machine's mood hits all alike. The
// first round warms up and is not counted. Garbage is collected before each
// run, so that each pays for its own.
func Rounds(c Case, contenders []Contender, rounds, n int) []Result {
	msgs := c.Make(streamLen)
	rigs := make([]*Rig, len(contenders))
	for i, contender := range contenders {
		rigs[i] = NewRig(contender, c.Setup, c.Work, msgs)
		defer rigs[i].Close()
	}
	results := make([]Result, len(rigs))
	for round := range rounds + 1 {
		for at := range rigs {
			i := (at + round) % len(rigs)
			runtime.GC()
			before := readHeap()
			elapsed := rigs[i].Run(n)
			after := readHeap()
			if round > 0 {
				results[i].add(float64(n), elapsed, before, after)
			}
		}
	}
	for i, contender := range contenders {
		results[i].Contender = contender.Name
		results[i].Allocs /= float64(rounds)
		results[i].Bytes /= float64(rounds)
	}
	return results
}

func (r *Result) add(n float64, elapsed time.Duration, before, after heap) {
	r.times = append(r.times, float64(elapsed)/n)
	r.Allocs += (after.objects - before.objects) / n
	r.Bytes += (after.bytes - before.bytes) / n
}

// streamLen is how many messages are made for rounds without makespan. They
// are given again when used up.
const streamLen = 1 << 14

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
	return stat.Median(as), stat.Median(bs), stat.Ratio(bs, as)
}

func timed(act func(n int), n int) float64 {
	start := time.Now()
	act(n)
	return float64(time.Since(start)) / float64(n)
}
