package model

import "math"

// Measured is what a run found out. Values of streams are taken as samples, so
// each has a standard error.
type Measured struct {
	Length    Value // events of a stream that wait or run
	Time      Value // in the system, in seconds
	Recovery  Value // of lost events, from when the gap is seen, in seconds
	Fail      Value // part of the gaps that stayed open
	Attempts  Value // replay attempts per second, of all streams
	Loss      Value // part of the events
	Burst     Value // events lost one after the other
	Active    Value // streams in memory
	PerSecond float64
}

// Value is a mean with its standard error.
type Value struct{ Mean, Error float64 }

// mean gathers numbers.
type mean struct {
	n           int
	sum, square float64
}

func (m *mean) add(x float64) {
	m.n++
	m.sum += x
	m.square += x * x
}

// value returns the mean with its standard error, if the numbers have nothing
// to do with each other.
func (m *mean) value() Value {
	n := float64(m.n)
	if m.n < 2 {
		return Value{m.sum / n, math.NaN()}
	}
	v := m.sum / n
	return Value{v, math.Sqrt(max(0, m.square/n-v*v) / (n - 1))}
}

func (r *rig) measured() *Measured {
	seconds := r.elapsed.Seconds()
	m := &Measured{Active: r.active.value(), PerSecond: float64(r.Events) / seconds}
	m.Length = r.over(func(st *stream) (float64, float64) { return st.insideBy, seconds })
	m.Time = r.over(func(st *stream) (float64, float64) { return st.time.sum, float64(st.time.n) })
	m.Recovery = r.over(func(st *stream) (float64, float64) { return st.recovery.sum, float64(st.recovery.n) })
	m.Fail = r.over(func(st *stream) (float64, float64) { return float64(st.failed), float64(st.gaps) })
	m.Attempts = r.over(func(st *stream) (float64, float64) { return float64(st.attempts), seconds / float64(r.Streams) })
	m.Loss = r.over(func(st *stream) (float64, float64) { return float64(st.lost), float64(len(st.sent)) })
	m.Burst = r.over(func(st *stream) (float64, float64) { return float64(st.lost), float64(st.runs) })
	return m
}

// over returns the quotient of two sums over all streams. Its standard error
// is that of a ratio of means, with the streams as samples.
func (r *rig) over(of func(*stream) (part, whole float64)) Value {
	var parts, wholes float64
	for _, st := range r.streams {
		part, whole := of(st)
		parts, wholes = parts+part, wholes+whole
	}
	ratio, off := parts/wholes, 0.0
	for _, st := range r.streams {
		part, whole := of(st)
		off += (part - ratio*whole) * (part - ratio*whole)
	}
	n := float64(len(r.streams))
	return Value{ratio, math.Sqrt(off*n/(n-1)) / wholes}
}
