package rabbitmq

import (
	"context"
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// renewal is what a lane knows of routes that refuse its messages, and what may
// help: a new channel, or to declare the topology again. Neither may send again
// what is on its way to other queues, so nothing more is sent until all that is
// on the channel is confirmed or refused; then the channel is given up.
//
// It is guarded by the lane's mutex. A route is forgotten when it takes a
// message.
type renewal struct {
	renew   error     // why the channel is to be given up; nil while it is not
	restore bool      // the topology is to be declared on the way
	opened  time.Time // the channel was
	wait    time.Duration
	routes  map[route]*refusals
}

type route struct{ exchange, key string }

// refusals are those of a route.
type refusals struct {
	nacks    int       // one after the other, on this channel
	hopeless time.Time // until then it is known that declaring does not help
}

const (
	// A channel of RabbitMQ 3.10 that was told once that a queue takes nothing
	// goes on saying so when the queue takes messages again. After nacksInARow
	// another one is opened, which knows better. That costs a round trip, and
	// is not done before the channel is a second old, or later each time up to
	// longestRenewal while that does not help: the queue may be full for long.
	nacksInARow     = 3
	shortestRenewal = time.Second
	longestRenewal  = 10 * time.Second
	// hopelessFor is for how long the topology is not declared again for a route
	// for which it did not help.
	hopelessFor = 10 * time.Second
	// mostRoutes is how many are known at once.
	mostRoutes = 1024
)

var (
	errNacks      = errors.New("it refuses messages, which a new one may not")
	errUndeclared = errors.New("a queue or an exchange of the topology is missing: it is declared again")
)

// noteLocked notes what became of a message that was on the channel, nil if it
// was taken. It tells whether the message is to be sent again all the same.
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

// restoreForLocked tells whether a message that has nowhere to go is to be sent
// again once the topology is declared, which is once.
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

// mayRestoreLocked tells whether the broker has closed the channel for the want
// of an exchange that may be there again once the topology is declared.
func (l *lane) mayRestoreLocked(reason error, suspects []uint64) (restore bool) {
	if e, ok := errors.AsType[*amqp.Error](reason); !ok || e.Code != amqp.NotFound {
		return false
	}
	for _, n := range suspects {
		restore = l.restoreForLocked(l.at(n)) || restore
	}
	return restore
}

// renewLocked gives the channel up if that is wanted and nothing is on it.
func (l *lane) renewLocked() {
	if l.mu.renew != nil && l.mu.onWire == 0 && l.mu.giveUp != nil {
		l.mu.giveUp(l.mu.renew)
	}
}

// beginRenewalLocked begins with a new channel.
func (l *lane) beginRenewalLocked() {
	r := &l.mu.renewal
	r.renew, r.opened, r.wait = nil, time.Now(), max(r.wait, shortestRenewal)
	for _, of := range r.routes {
		of.nacks = 0
	}
}

// isLost notes why a channel is gone, and tells whether the topology is to be
// declared again.
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
		l.p.cfg.Logger.Warn("rabbitmq: what is missing of the topology could not be declared again", "error", err)
	}
}

func (s *slot) route() route { return route{s.exchange, s.key} }

// of returns what is known of a route.
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
