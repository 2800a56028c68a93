package telemetry

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/interlock-go/interlock/dispatcher/view"
)

// commits are the histograms of one store.
type commits struct {
	took histogram
	size histogram
}

// measure adds a commit.
func (s *commits) measure(c view.Commit) {
	s.took.add(0, c.Took)
	if c.Events > 0 {
		s.size.addSize(c.Events)
	}
}

// collect implements measured.
func (s *commits) collect(c *collector, name string) {
	own := []attribute.KeyValue{nameKey.String(name)}
	c.histogram("interlock.store.commit.duration", "s", "Time of the COMMIT, with what was sent or written with it, of all transactions of the store that were committed.", s.took.point(), own)
	c.histogram("interlock.store.group.size", "{event}", "Events that one transaction made durable, of all transactions with any.", s.size.counts(sizes), own)
}
