package httpauth

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/internal/loglimit"
)

// refusalEvery is the interval between log lines, since everybody can make refused
// requests.
const refusalEvery = 10 * time.Second

// Refusals counts unauthorised requests, and logs one of them now and then, with
// the number of others and nothing of their content.
type Refusals struct {
	logger *slog.Logger
	text   string
	limit  loglimit.Limit
	n      atomic.Uint64
}

// NewRefusals returns a Refusals that logs with a text.
func NewRefusals(logger *slog.Logger, text string) *Refusals {
	return &Refusals{logger: logger, text: text, limit: loglimit.Limit{Lines: 1, Every: refusalEvery}}
}

// Add counts a request that was refused for err.
func (r *Refusals) Add(request *http.Request, err error) {
	total := r.n.Add(1)
	if ok, more := r.limit.Take(); ok {
		r.logger.Warn(r.text, "from", request.RemoteAddr, "err", err, "more_since_last", more, "total", total)
	}
}

// Count returns the number of refused requests.
func (r *Refusals) Count() uint64 { return r.n.Load() }
