package telemetry

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/interlock-go/interlock/dispatcher/view"
)

// steps are the histograms of one coordinator.
type steps struct {
	mu sync.Mutex
	of map[step]*histogram
}

// step is what the calls of a histogram have in common.
type step struct {
	saga, name, action string
	err                int // index in errorTypes
}

// measure adds a call.
func (s *steps) measure(one view.Step) {
	key := step{one.Saga, one.Name, "do", errorType(one.Err)}
	if one.Undo {
		key.action = "undo"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.of[key]
	if h == nil {
		h = new(histogram)
		s.of[key] = h
	}
	h.add(0, one.Took)
}

// collect implements measured.
func (s *steps) collect(c *collector, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range slices.SortedFunc(maps.Keys(s.of), compare) {
		attributes := []attribute.KeyValue{nameKey.String(name), attribute.String("interlock.saga", key.saga),
			attribute.String("interlock.step", key.name), attribute.String("interlock.action", key.action)}
		if key.err > 0 {
			attributes = append(attributes, semconv.ErrorTypeKey.String(errorTypes[key.err]))
		}
		c.histogram("interlock.saga.step.duration", "s", "Time of one call of a step's function, of all calls.", s.of[key].point(), attributes)
	}
}

func compare(a, b step) int {
	return cmp.Or(cmp.Compare(a.saga, b.saga), cmp.Compare(a.name, b.name), cmp.Compare(a.action, b.action), cmp.Compare(a.err, b.err))
}
