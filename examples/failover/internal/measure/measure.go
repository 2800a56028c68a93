// Package measure makes figures of what was sent and what was applied.
package measure

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/interlock-go/interlock/examples/failover/internal/feed"
)

// Outage is a time in which the broker was down.
type Outage struct {
	Died time.Time // when it was killed
	Back time.Time // when it took connections again
}

// Run is what one way did with one run's events.
type Run struct {
	Sent    []feed.Order
	Applied []feed.Applied // in the order of their commits
	Outages []Outage
}

// Figures are those of one way.
type Figures struct {
	Sent       int
	Delivered  int // events applied at least once
	Ordered    int // of those, events before which no later one of their key was applied
	Duplicates int // effects beyond the first of an event
	Channels   map[feed.Channel]int
	// Latencies are from when an event came into being until its effect was
	// committed, the shortest first.
	Latencies []time.Duration
	// Recoveries are, for each outage, from when the broker was killed until
	// the first event was applied that came into being after that. They include
	// waiting for that event, sending it and processing it.
	Recoveries []time.Duration
	// Unrecovered are outages after which there was no such event.
	Unrecovered int
}

// Of returns the figures of some runs together.
func Of(runs ...Run) Figures {
	f := Figures{Channels: map[feed.Channel]int{}}
	for _, r := range runs {
		f.add(r)
	}
	slices.Sort(f.Latencies)
	return f
}

func (f *Figures) add(r Run) {
	f.Sent += len(r.Sent)
	first := firsts(r.Applied)
	f.Delivered += len(first)
	f.Duplicates += len(r.Applied) - len(first)
	last := map[int]uint64{}
	for _, a := range first {
		if a.Number > last[a.Key] {
			last[a.Key] = a.Number
			f.Ordered++
		}
		f.Channels[a.Channel]++
		f.Latencies = append(f.Latencies, a.At.Sub(a.Due))
	}
	for _, o := range r.Outages {
		if d, ok := recovery(first, o.Died); ok {
			f.Recoveries = append(f.Recoveries, d)
		} else {
			f.Unrecovered++
		}
	}
}

// firsts leaves out all but the first effect of each event.
func firsts(applied []feed.Applied) (first []feed.Applied) {
	seen := map[int]bool{}
	for _, a := range applied {
		if !seen[a.N] {
			seen[a.N] = true
			first = append(first, a)
		}
	}
	return first
}

func recovery(applied []feed.Applied, died time.Time) (d time.Duration, ok bool) {
	d = math.MaxInt64
	for _, a := range applied {
		if a.Due.After(died) {
			d, ok = min(d, a.At.Sub(died)), true
		}
	}
	return d, ok
}

// DeliveredShare is from 0 to 1.
func (f Figures) DeliveredShare() float64 { return share(f.Delivered, f.Sent) }

// Order is the order coefficient, the ordered ones among those delivered, from
// 0 to 1.
func (f Figures) Order() float64 { return share(f.Ordered, f.Delivered) }

// ChannelShare is the share of delivered events that came by a channel.
func (f Figures) ChannelShare(c feed.Channel) float64 { return share(f.Channels[c], f.Delivered) }

func share(part, whole int) float64 { return float64(part) / float64(whole) }

// Mean returns NaN for none.
func Mean(list []time.Duration) float64 {
	sum := 0.0
	for _, d := range list {
		sum += float64(d)
	}
	return sum / float64(len(list))
}

// Quantile of a list that is sorted; NaN for an empty one.
func Quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return float64(sorted[int(math.Ceil(q*float64(len(sorted)-1)))])
}

// Median of numbers in any order; NaN for none.
func Median(list []float64) float64 {
	if len(list) == 0 {
		return math.NaN()
	}
	list = sorted(list)
	half := len(list) / 2
	if len(list)%2 == 1 {
		return list[half]
	}
	return (list[half-1] + list[half]) / 2
}

func sorted[T cmp.Ordered](list []T) []T { return slices.Sorted(slices.Values(list)) }
