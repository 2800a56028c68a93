package ordering

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/view"
)

// Request is a decision of an operator who works from outside of the process: the store
// keeps it until the term that it concerns carries it out, at once or when it begins.
type Request struct {
	ID       int64
	Consumer string // whose term is asked
	Action   view.Action
	By       string // who has decided
	Reason   string
	Made     time.Time
	Begun    time.Time // zero until a term has begun to carry it out
	Ended    time.Time // zero until it is known what became of it
	Error    string    // "" if it was carried out
}

// State says in words how far the request has come.
func (r Request) State() string {
	switch {
	case r.Ended.IsZero() && r.Begun.IsZero():
		return "waits"
	case r.Ended.IsZero():
		return "begun"
	case r.Error != "":
		return "failed: " + r.Error
	}
	return "done"
}

// Requested is implemented by a [Term] whose store takes requests, as those of package
// sqlstore do. In their errors, [ErrFenced] means that the term is over.
type Requested interface {
	// Requests lists the requests that have not ended for what this term has, oldest
	// first, limit at most.
	Requests(ctx context.Context, limit int) ([]Request, error)
	// BeginRequest notes that a request is about to be carried out. The error wraps
	// [ErrNoRequest] if it has ended or was withdrawn.
	BeginRequest(ctx context.Context, id int64) error
	// EndRequest notes what became of it: nil if it was carried out.
	EndRequest(ctx context.Context, id int64, result error) error
}

// ErrNoRequest is wrapped by the error for a request that does not exist, or has ended.
var ErrNoRequest = errors.New("ordering: no such request: it was never made, has ended, or was withdrawn")

const (
	fewRequests = 256              // that are read at a time
	requestTime = 30 * time.Second // for carrying one out

	requestInterval = time.Second
)

// Attend carries out the requests for a term: it looks every interval, 1 s by default, and passes each one to
// the Act of to, with its operator and reason in the context. It is for those who make
// something that works in a term, as a [Sequencer] does. It returns when ctx ends or the term
// is over, and at once if the store takes no requests. Requests for which mine, if it is
// not nil, is false are left alone.
//
// A request is carried out at least once: if the process ends before the result is noted, it
// is passed to Act again by the next term. So Act must do nothing if what the target names
// is not as it was.
func Attend(ctx context.Context, term Term, to view.Operated, every time.Duration, mine func(Request) bool, logger *slog.Logger) {
	store, ok := term.(Requested)
	if !ok {
		return
	}
	if every <= 0 {
		every = requestInterval
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := attendOnce(ctx, store, to, mine, logger)
		switch {
		case ctx.Err() != nil || errors.Is(err, ErrFenced) || errors.Is(err, ErrStoreClosed):
			return
		case err != nil && !failing:
			logger.Warn("requests of operators cannot be read or noted, trying again", "consumer", term.Info().Name, "err", err)
		}
		failing = err != nil
	}
}

func attendOnce(ctx context.Context, store Requested, to view.Operated, mine func(Request) bool, logger *slog.Logger) error {
	list, err := store.Requests(ctx, fewRequests)
	if err != nil {
		return err
	}
	for _, r := range list {
		if mine != nil && !mine(r) {
			continue
		}
		err := store.BeginRequest(ctx, r.ID)
		if errors.Is(err, ErrNoRequest) {
			continue
		}
		if err != nil {
			return err
		}
		result := r.carryOut(ctx, to)
		if ctx.Err() != nil {
			return ctx.Err() // the next term finds out
		}
		log := logger.Info
		if result != nil {
			log = logger.Warn
		}
		log("request of an operator", "action", r.Action.Name, "target", r.Action.Target, "operator", r.By, "why", r.Reason, "request", r.ID, "err", result)
		if err := store.EndRequest(ctx, r.ID, result); err != nil {
			return err
		}
	}
	return nil
}

// carryOut passes a request to what it concerns.
func (r Request) carryOut(ctx context.Context, to view.Operated) error {
	ctx, cancel := context.WithTimeoutCause(dispatcher.WithOperator(ctx, r.By, r.Reason), requestTime,
		fmt.Errorf("not known after %v: it may be carried out later", requestTime))
	defer cancel()
	err := to.Act(ctx, r.Action)
	if err != nil && !r.Begun.IsZero() {
		err = fmt.Errorf("%w; but it was begun before, at %s, and may have been carried out then: see what operators have decided", err, r.Begun.UTC().Format(time.RFC3339))
	}
	return err
}

// attend is the goroutine that carries out requests for the sequencer's streams.
func (s *Sequencer[T]) attend() {
	if s.cfg.RequestInterval < 0 {
		return
	}
	Attend(s.background, s.term, s, s.cfg.RequestInterval, func(r Request) bool {
		at, _, err := ParseTarget(r.Action.Target)
		if err != nil {
			return true // Act says what is wrong
		}
		mine, err := s.owned(at.Stream)
		return err != nil || len(mine) > 0
	}, s.cfg.Logger)
}
