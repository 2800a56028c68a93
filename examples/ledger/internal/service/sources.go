package service

import (
	"github.com/interlock-go/interlock/dispatcher/inspect"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/ordering"
)

// Name is that of the service's source.
const Name = "ledger"

// Sources returns what the inspector's page shows of the service.
func (s *Service) Sources() []inspect.Named {
	named := inspect.Named{Name: Name, Source: s.sequencer}
	if s.recorder != nil {
		named.Timeline = s.recorder
	}
	return []inspect.Named{named}
}

// nameOf names a message for an operator.
func nameOf(job ordering.Job[*book.Message]) string { return job.Event.Type + " " + job.Event.Name() }
