package ordering_test

import (
	"testing"

	"github.com/interlock-go/interlock/internal/storetest"
	"github.com/interlock-go/interlock/ordering"
)

func TestMemoryIsAStore(t *testing.T) {
	storetest.Run(t, storetest.Kind{New: func(*testing.T) func() ordering.Store {
		m := ordering.NewMemory()
		return func() ordering.Store { return m }
	}})
}
