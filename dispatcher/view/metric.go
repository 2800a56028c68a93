package view

import "context"

// Metered has metrics, which package telemetry collects.
type Metered interface {
	// Metrics returns the values at the moment. It always returns the same metrics with
	// the same points, in the same order, unless the error says why some cannot be known;
	// then it returns the others. It is safe for concurrent use.
	Metrics(ctx context.Context) ([]Metric, error)
}

// Metric is a number of a certain kind, by the conventions of OpenTelemetry.
type Metric struct {
	Name string // segments with dots, as in "interlock.dispatcher.messages"
	Unit string // "s", "By", "1", or what is counted, as in "{message}"
	Help string // one sentence on what it means
	// Grows says that it counts what has happened since the beginning. Otherwise it is
	// the state at the moment.
	Grows bool
	// Attribute is the name of what the points differ in. It is empty if there is one.
	Attribute string
	Points    []Point
}

// Point is a value of a metric.
type Point struct {
	Of    string // the attribute's value
	Value float64
}

// One returns the points of a metric without an attribute.
func One[N int | int64 | uint64 | float64](value N) []Point {
	return []Point{{Value: float64(value)}}
}

// Stopped returns the metric of whether something has stopped, and why. A shutdown in good
// order is no reason.
func Stopped(takenOver, failed bool) Metric {
	m := Metric{Name: "interlock.stopped", Unit: "{state}", Help: "1 if it has stopped for this reason, else 0.",
		Attribute: "interlock.reason", Points: []Point{{Of: "taken_over"}, {Of: "failure"}}}
	switch {
	case takenOver:
		m.Points[0].Value = 1
	case failed:
		m.Points[1].Value = 1
	}
	return m
}
