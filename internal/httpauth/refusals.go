package httpauth

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/internal/loglimit"
)

// refusalEvery is how often a refused request is logged: everybody can make
// them.
const refusalEvery = 10 * time.Second

// Refusals counts requests that were not authorised, and logs one of them now
// and then, with how many others there were and nothing that they say.
type Refusals struct {
	logger *slog.Logger
	text   string
	limit  loglimit.Limit
	n      atomic.Uint64
}

// NewRefusals returns one that logs with a text.
func NewRefusals(logger *slog.Logger, text string) *Refusals {
	return &Refusals{logger: logger, text: text, limit: loglimit.Limit{Lines: 1, Every: refusalEvery}}
}

// Add counts a request that was refused for err.
func (r *Refusals) Add(request *http.Request, err error) {
	total := r.n.Add(1)
	if ok, more := r.limit.Take(); ok {
		r.logger.Warn(r.text, "from", request.RemoteAddr, "error", err, "more_since_last", more, "total", total)
	}
}

// Count returns how many there were.
func (r *Refusals) Count() uint64 { return r.n.Load() }
