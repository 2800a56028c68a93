package inspect

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/interlock-go/interlock/dispatcher/view"
)

// How often a source is looked at: to know since when something is so, and for viewers.
const (
	watchEvery = time.Second
	freshFor   = 250 * time.Millisecond
)

// Inspector is an [http.Handler]; see the package documentation. Make it with [New], and
// end it with [Inspector.Close] before the sources. Its methods are safe for concurrent use.
type Inspector struct {
	config  Config
	sources []*source
	byName  map[string]*source
	mux     http.Handler
	viewers chan struct{} // has an element for each page that is updated
	audit   audit

	over context.Context
	end  context.CancelFunc
	done sync.WaitGroup
}

// New returns an inspector. The error wraps [ErrConfig].
func New(config Config) (*Inspector, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	in := &Inspector{config: config, byName: map[string]*source{}, viewers: make(chan struct{}, config.MaxViewers)}
	in.over, in.end = context.WithCancel(context.Background())
	for _, named := range config.Sources {
		s := newSource(named, config)
		in.sources = append(in.sources, s)
		in.byName[named.Name] = s
		in.done.Go(func() { in.watch(s) })
	}
	in.mux = in.routes()
	return in, nil
}

// ServeHTTP implements [http.Handler].
func (in *Inspector) ServeHTTP(w http.ResponseWriter, r *http.Request) { in.mux.ServeHTTP(w, r) }

// Close ends what the inspector does, the updating of pages too, and waits for it.
func (in *Inspector) Close() error {
	in.end()
	in.done.Wait()
	return nil
}

// watch looks at a source from time to time.
func (in *Inspector) watch(s *source) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		s.look(in.over, view.Query{})
		select {
		case <-ticker.C:
		case <-in.over.Done():
			return
		}
	}
}
