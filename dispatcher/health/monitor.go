package health

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/interlock-go/interlock/dispatcher/view"
)

// Monitor looks at the sources of a service; see the package documentation. Make it with
// [New], and end it with [Monitor.Close] before the sources. Its methods are safe for
// concurrent use.
type Monitor struct {
	cfg  Config
	over context.Context
	end  context.CancelFunc
	done sync.WaitGroup

	mu struct {
		sync.Mutex
		sources map[string]Health // by name, as last seen
		checks  string            // those that have failed last, as logged
	}
}

// New returns a monitor, which has looked at each source once. The error wraps [ErrConfig].
func New(cfg Config) (*Monitor, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	m := &Monitor{cfg: cfg}
	m.over, m.end = context.WithCancel(context.Background())
	m.mu.sources = map[string]Health{}
	var first sync.WaitGroup
	for _, s := range cfg.Sources {
		first.Add(1)
		m.done.Go(func() {
			w := watch{m: m, source: s}
			w.look()
			first.Done()
			w.loop()
		})
	}
	first.Wait()
	return m, nil
}

// Close ends the looking, and waits for it.
func (m *Monitor) Close() error {
	m.end()
	m.done.Wait()
	return nil
}

// Sources returns how each source does, by its name, as last seen.
func (m *Monitor) Sources() map[string]Health {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[string]Health, len(m.mu.sources))
	for name, h := range m.mu.sources {
		all[name] = h
	}
	return all
}

// watch looks at one source, on a goroutine of its own, so that one that does not answer
// holds up no other.
type watch struct {
	m      *Monitor
	source Source
	judge  Judge
}

// A source is looked at for a twentieth of the time at most.
const share = 20

func (w *watch) loop() {
	for {
		took := w.look()
		wait := time.NewTimer(max(w.m.cfg.Interval, share*took))
		select {
		case <-wait.C:
		case <-w.m.over.Done():
			wait.Stop()
			return
		}
	}
}

// look looks at the source, briefly unless it is stalled, and returns how long that took.
func (w *watch) look() time.Duration {
	began := time.Now()
	h := w.judged(view.Query{Brief: true})
	if h.State == Stalled {
		h = w.judged(view.Query{}) // to say which message is the oldest
	}
	if w.m.over.Err() == nil {
		w.m.note(w.source.Name, h)
	}
	return time.Since(began)
}

func (w *watch) judged(q view.Query) Health {
	at := time.Now()
	v, err := w.view(q)
	if err != nil {
		return Health{Unknown, []string{err.Error()}}
	}
	w.judge.Note(at, v)
	return w.judge.Health(at, v, w.m.cfg.StalledAfter)
}

// view looks at the source; a panic there is an error.
func (w *watch) view(q view.Query) (v view.View, err error) {
	ctx, cancel := context.WithTimeout(w.m.over, w.m.cfg.Timeout)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("looking at it panicked: %v", r)
		}
	}()
	return w.source.Source.View(ctx, q)
}

// note keeps what was seen, and logs a change.
func (m *Monitor) note(name string, h Health) {
	m.mu.Lock()
	before, seen := m.mu.sources[name]
	m.mu.sources[name] = h
	m.mu.Unlock()
	switch {
	case seen && before.State == h.State, !seen && h.State == Healthy:
	case h.State == Healthy:
		m.cfg.Logger.Info("health: healthy again", "source", name, "before", before.State)
	default:
		m.cfg.Logger.Warn("health: "+string(h.State), "source", name, "reasons", h.Reasons)
	}
}
