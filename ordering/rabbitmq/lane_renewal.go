package rabbitmq

import (
	"context"
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// renewal records the routes that refuse a lane's messages, and the remedy: a new
// channel, or declaring the topology again. Neither may resend messages that are
// on their way to other queues, so nothing more is sent until all messages on the
// channel are confirmed or refused; then the channel is given up.
//
// It is guarded by the lane's mutex. A route is forgotten when it accepts a
// message.
type renewal struct {
	renew   error         // why the channel is to be given up; nil if it is not
	restore bool          // the topology is to be declared before the next channel
	opened  time.Time     // when the channel was
	wait    time.Duration // age of a channel before refusals replace it
	routes  map[route]*refusals
}

type route struct{ exchange, key string }

// refusals counts those of a route.
type refusals struct {
	nacks    int       // in a row, on this channel
	hopeless time.Time // until then the topology is not declared again for the route
}

const (
	// Once a queue has refused a message, a channel of RabbitMQ 3.10 goes on
	// refusing when the queue accepts messages again; a new channel does not. It
	// is opened after nacksInARow. That costs a round trip, so it is done only
	// when the channel is shortestRenewal old, and twice as old each time it does
	// not help, up to longestRenewal: the queue may be full for long.
	nacksInARow     = 3
	shortestRenewal = time.Second
	longestRenewal  = 10 * time.Second
	// hopelessFor is the time for which the topology is not declared again for a
	// route after that has not helped.
	hopelessFor = 10 * time.Second
	// mostRoutes is the largest number of routes recorded.
	mostRoutes = 1024
)

var (
	errNacks      = errors.New("it refuses messages that a new channel may accept")
	errUndeclared = errors.New("a queue or an exchange of the topology is missing: it is declared again")
)

// noteLocked records the outcome of a message that was on the channel; nil means
// accepted. It reports whether the message is to be sent again nevertheless.
func (l *lane) noteLocked(s *slot, reason error) (again bool) {
	r := &l.mu.renewal
	if reason == nil {
		if len(r.routes) > 0 {
			if _, refused := r.routes[s.route()]; refused {
				delete(r.routes, s.route())
				r.wait = shortestRenewal
			}
		}
		return false
	}
	if errors.Is(reason, ErrUnroutable) {
		return !s.told && l.restoreForLocked(s)
	}
	of := r.of(s.route())
	if of.nacks++; of.nacks >= nacksInARow && r.renew == nil && time.Since(r.opened) >= r.wait {
		r.renew = errNacks
		r.wait = min(2*r.wait, longestRenewal)
	}
	return false
}

// restoreForLocked reports whether a message that no queue gets is to be sent
// again after declaring the topology. That is done once for each message.
func (l *lane) restoreForLocked(s *slot) bool {
	r := &l.mu.renewal
	if !l.p.restore.leads(s.exchange, s.key) {
		return false
	}
	of := r.of(s.route())
	if s.restored {
		of.hopeless = time.Now().Add(hopelessFor)
		return false
	}
	if time.Now().Before(of.hopeless) {
		return false
	}
	s.restored, r.restore, r.renew = true, true, errUndeclared
	return true
}

// mayRestoreLocked reports whether the broker has closed the channel for lack of
// an exchange that declaring the topology may restore.
func (l *lane) mayRestoreLocked(reason error, suspects []uint64) (restore bool) {
	if e, ok := errors.AsType[*amqp.Error](reason); !ok || e.Code != amqp.NotFound {
		return false
	}
	for _, n := range suspects {
		restore = l.restoreForLocked(l.at(n)) || restore
	}
	return restore
}

// renewLocked gives the channel up if it is to be renewed and nothing is on it.
func (l *lane) renewLocked() {
	if l.mu.renew != nil && l.mu.onWire == 0 && l.mu.giveUp != nil {
		l.mu.giveUp(l.mu.renew)
	}
}

// beginRenewalLocked starts the counts of a new channel.
func (l *lane) beginRenewalLocked() {
	r := &l.mu.renewal
	r.renew, r.opened, r.wait = nil, time.Now(), max(r.wait, shortestRenewal)
	for _, of := range r.routes {
		of.nacks = 0
	}
}

// isLost records why a channel was lost, and reports whether the topology is to
// be declared again.
func (l *lane) isLost(cause error) (restore bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.trouble = cause
	restore, l.mu.restore = l.mu.restore, false
	return restore
}

// restore declares the topology again.
func (l *lane) restore(ctx context.Context, conn *amqp.Connection) {
	if err := declare(ctx, l.p.cfg.AnswerTimeout, conn, l.p.restore); err != nil && ctx.Err() == nil {
		l.p.cfg.Logger.Warn("rabbitmq: the topology could not be declared again", "err", err)
	}
}

func (s *slot) route() route { return route{s.exchange, s.key} }

// of returns the refusals of a route.
func (r *renewal) of(to route) *refusals {
	of := r.routes[to]
	if of == nil {
		if r.routes == nil || len(r.routes) >= mostRoutes {
			r.routes = make(map[route]*refusals)
		}
		of = &refusals{}
		r.routes[to] = of
	}
	return of
}
