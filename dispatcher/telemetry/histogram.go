package telemetry

import (
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// bounds are the upper bounds of the buckets of durations. Messages that do little take
// microseconds, so half of the bounds are below 5 ms, where the conventions begin.
var bounds = func() (all []time.Duration) {
	for unit := time.Microsecond; unit <= time.Second; unit *= 10 {
		all = append(all, unit, unit*5/2, unit*5)
	}
	return append(all, 10*time.Second, 30*time.Second, time.Minute, 5*time.Minute)
}()

// seconds are the bounds as a reader gets them.
var seconds = func() (all []float64) {
	for _, b := range bounds {
		all = append(all, b.Seconds())
	}
	return all
}()

// sizes are the upper bounds of the buckets of numbers: 1, 2, 4 and so on up to 1,024.
var sizes = func() (all []float64) {
	for n := 1.0; n <= 1024; n *= 2 {
		all = append(all, n)
	}
	return all
}()

// histogram counts durations, by seconds, or numbers, by sizes. It may be used by several
// goroutines at once. Workers have parts of their own, so that they do not write the same
// memory all the time.
type histogram struct{ parts [8]part }

type part struct {
	buckets [26]atomic.Uint64 // one more than bounds
	sum     atomic.Int64      // ns, or a number
	_       [64]byte          // so that the next part is in another cache line
}

// add adds a duration.
func (h *histogram) add(worker int, d time.Duration) {
	i, _ := slices.BinarySearch(bounds, d)
	h.count(worker, i, int64(d))
}

// addSize adds a number.
func (h *histogram) addSize(n int) {
	i, _ := slices.BinarySearch(sizes, float64(n))
	h.count(0, i, int64(n))
}

func (h *histogram) count(worker, bucket int, value int64) {
	p := &h.parts[worker%len(h.parts)]
	p.buckets[bucket].Add(1)
	p.sum.Add(value)
}

// point returns the counts of durations at the moment.
func (h *histogram) point() metricdata.HistogramDataPoint[float64] {
	p := h.counts(seconds)
	p.Sum /= float64(time.Second)
	return p
}

// counts returns the counts by upper bounds at the moment. What is being added may be counted
// and not be in the sum yet.
func (h *histogram) counts(by []float64) metricdata.HistogramDataPoint[float64] {
	p := metricdata.HistogramDataPoint[float64]{Bounds: by, BucketCounts: make([]uint64, len(by)+1)}
	for i := range h.parts {
		part := &h.parts[i]
		for b := range p.BucketCounts {
			n := part.buckets[b].Load()
			p.BucketCounts[b] += n
			p.Count += n
		}
		p.Sum += float64(part.sum.Load())
	}
	return p
}
