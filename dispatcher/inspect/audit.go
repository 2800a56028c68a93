package inspect

import (
	"sync"
	"time"

	"github.com/interlock-go/interlock/dispatcher/view"
)

// Deed is an action of an operator.
type Deed struct {
	At     time.Time   `json:"at"`
	Source string      `json:"source"`
	Action view.Action `json:"action"`
	Who    string      `json:"who"`
	Why    string      `json:"why"`
	Err    string      `json:"error,omitempty"` // it could not be done
}

// maxDeeds bounds the actions that are listed.
const maxDeeds = 200

// audit has the last actions done with this inspector. What must not be forgotten is in
// the log, and in the databases of the sources.
type audit struct {
	mu    sync.Mutex
	deeds []Deed // guarded by mu; the latest last
}

func (a *audit) add(d Deed) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.deeds) == maxDeeds {
		a.deeds = append(a.deeds[:0], a.deeds[1:]...)
	}
	a.deeds = append(a.deeds, d)
}

// list returns the actions, the latest first.
func (a *audit) list() []Deed {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := make([]Deed, 0, len(a.deeds))
	for i := len(a.deeds) - 1; i >= 0; i-- {
		list = append(list, a.deeds[i])
	}
	return list
}
