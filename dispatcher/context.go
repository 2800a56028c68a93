package dispatcher

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// Info is what a handler can know of the run it is in.
type Info struct {
	ID      uint64 // the message's arrival number, from 1; of the first in a batch
	Attempt int    // from 1
	Worker  int    // from 0
}

// InfoFrom returns the Info of the handler, or of the failed attempt that
// Config.DeadLetter is called for, whose context ctx is or was made from. It
// goes on telling that when they have returned.
func InfoFrom(ctx context.Context) (info Info, ok bool) {
	s, ok := ctx.Value(scopeKey{}).(*scope)
	if !ok {
		return Info{}, false
	}
	return Info{ID: s.id, Attempt: int(s.attempt), Worker: s.host.worker}, true
}

// Release gives keys of the running message back before its handler ends, so
// that messages waiting for them need not wait for the rest. The handler must
// not touch what they stand for any more. Each key must be one that the
// message's normalised claim has, else the error wraps [ErrNotHeld] and
// nothing is given back. If the message is tried again later, it takes the
// keys anew, as with [Widen].
//
// Give back only what is final. Where a handler's work becomes durable after
// it has returned, as in a transaction that commits then, it must keep its
// keys: such a dispatcher has [Config.StrictLocking] set, as that of package
// ordering's Sequencer has, and the error is [ErrStrictLocking].
//
// ctx must be the context of a running [Handler], or made from it, else the
// error is [ErrNoHandler]; that is also the answer in a [BatchHandler], whose
// messages have their keys in common, and for the context of an attempt that is
// over, which does nothing to any later one. It may be called by several
// goroutines of the handler at once. Its cost is linear in the message's keys
// and in what may start because of it.
func Release(ctx context.Context, keys ...lockkeys.Key) error {
	s, ok := ctx.Value(scopeKey{}).(*scope)
	if !ok || s.host.release == nil {
		return ErrNoHandler
	}
	return s.host.release(s, keys)
}

// scope is the context of one attempt, or of one call of DeadLetter, and is
// never used for another: whoever keeps it can do no harm with it to what runs
// later. To save an allocation for each message, a worker makes many at a time;
// and they are small.
//
// All but phase is set before the function is called and may be read at any time.
type scope struct {
	host    *host
	id      uint64 // of the message
	attempt int32
	phase   atomic.Uint32
}

// host is what the scopes of a worker have in common; one with a time limit has
// a host of its own.
type host struct {
	base    context.Context
	owner   any // the dispatcher
	worker  int
	release func(s *scope, keys []lockkeys.Key) error // nil where there is nothing to release
}

// The phases of a scope. A release works on the message's claim under the
// mutex, the worker without it once the handler has returned. So that neither
// gets in the other's way, each has to leave the first phase before.
const (
	handlerRuns uint32 = iota
	handlerReleases
	handlerReturned // and its message is being judged and completed
	attemptOver
)

// beginRelease reports whether the handler runs, and if so keeps the worker
// from going on with its message until endRelease. Both need the mutex.
func (s *scope) beginRelease() bool {
	return s.phase.CompareAndSwap(handlerRuns, handlerReleases)
}

func (s *scope) endRelease() { s.phase.Store(handlerRuns) }

// returned notes that the handler has returned. From then on nothing is
// released any more. A release that is under way has the mutex, mu.
func (s *scope) returned(mu sync.Locker) {
	if !s.phase.CompareAndSwap(handlerRuns, handlerReturned) {
		mu.Lock()
		s.phase.Store(handlerReturned)
		mu.Unlock()
	}
}

type scopeKey struct{}

func (s *scope) Deadline() (time.Time, bool) { return s.host.base.Deadline() }
func (s *scope) Done() <-chan struct{}       { return s.host.base.Done() }
func (s *scope) Err() error                  { return s.host.base.Err() }

func (s *scope) Value(key any) any {
	if _, ok := key.(scopeKey); ok {
		return s
	}
	return s.host.base.Value(key)
}
