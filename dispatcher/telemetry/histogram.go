package telemetry

import (
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// bounds are the upper bounds of the buckets of all histograms. Messages that do little
// take microseconds, so half of the bounds are below 5 ms, where the conventions begin.
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

// histogram counts durations. It may be used by several goroutines at once. Workers have
// parts of their own, so that they do not write the same memory all the time.
type histogram struct{ parts [8]part }

type part struct {
	buckets [26]atomic.Uint64 // one more than bounds
	sum     atomic.Int64      // ns
	_       [64]byte          // so that the next part is in another cache line
}

func (h *histogram) add(worker int, d time.Duration) {
	p := &h.parts[worker%len(h.parts)]
	i, _ := slices.BinarySearch(bounds, d)
	p.buckets[i].Add(1)
	p.sum.Add(int64(d))
}

// point returns the counts at the moment. A duration that is being added may be counted and
// not be in the sum yet.
func (h *histogram) point() metricdata.HistogramDataPoint[float64] {
	p := metricdata.HistogramDataPoint[float64]{Bounds: seconds, BucketCounts: make([]uint64, len(seconds)+1)}
	var sum time.Duration
	for i := range h.parts {
		part := &h.parts[i]
		for b := range part.buckets {
			n := part.buckets[b].Load()
			p.BucketCounts[b] += n
			p.Count += n
		}
		sum += time.Duration(part.sum.Load())
	}
	p.Sum = sum.Seconds()
	return p
}
