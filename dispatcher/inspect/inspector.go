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
	watchEvery  = time.Second
	freshFor    = 250 * time.Millisecond
	freshAtMost = 10 * time.Second // if looking takes long
	lookAtMost  = 5 * time.Second  // as with a database that does not answer
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
		s := newSource(in.over, named, config)
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

// lookAll looks at all sources at the same time, so that one that does not answer holds up
// no other.
func (in *Inspector) lookAll() []*Seen {
	all := make([]*Seen, len(in.sources))
	var looks sync.WaitGroup
	for i, s := range in.sources {
		looks.Go(func() { all[i] = s.look(view.Query{}) })
	}
	looks.Wait()
	return all
}

// watch looks at a source from time to time.
func (in *Inspector) watch(s *source) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		s.look(view.Query{})
		select {
		case <-ticker.C:
		case <-in.over.Done():
			return
		}
	}
}
