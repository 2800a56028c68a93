package dispatcher

import (
	"context"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/internal/ofcall"
	"github.com/interlock-go/interlock/lockkeys"
)

// Info describes the attempt that a handler runs in.
type Info struct {
	ID      uint64 // the message's arrival number, from 1; of the first in a batch
	Attempt int    // from 1
	Worker  int    // from 0
}

// InfoFrom returns the Info of the handler, or of the failed attempt that
// Config.DeadLetter is called for, whose context ctx is or is derived from. It
// still does so after these have returned.
func InfoFrom(ctx context.Context) (info Info, ok bool) {
	s, ok := ctx.Value(scopeKey{}).(*scope)
	if !ok {
		return Info{}, false
	}
	return Info{ID: s.id, Attempt: int(s.attempt), Worker: s.host.worker}, true
}

// Release releases keys of the running message before its handler ends, so that
// messages waiting for them need not wait for the rest. The handler must no
// longer touch what these keys stand for. Each must be a key of the message's
// normalised claim, else the error wraps [ErrNotHeld] and nothing is released.
// If the message is tried again later, it acquires the keys again, as with
// [Widen].
//
// Release only what is final. A handler whose effect becomes durable only after
// it has returned, as in a transaction that is committed then, must keep its
// keys. [Config.StrictLocking] enforces that, as in the Sequencer of package
// ordering: the error is [ErrStrictLocking] then.
//
// ctx must be the context of a running [Handler], or derived from it, else the
// error is [ErrNoHandler]. This is also the error in a [BatchHandler], whose
// messages share their keys, and for the context of an earlier attempt. Several
// goroutines of the handler may call Release at once. Its cost is linear in the
// message's keys and in the messages that may start because of it.
func Release(ctx context.Context, keys ...lockkeys.Key) error {
	s, ok := ctx.Value(scopeKey{}).(*scope)
	if !ok || s.host.attempts == nil {
		return ErrNoHandler
	}
	return s.host.attempts.release(s, keys)
}

// scope is the context of one attempt, or of one call of DeadLetter. It is
// never reused, so code that keeps it cannot affect what runs later. A worker
// allocates many at a time, to save an allocation for each message; so they are
// small.
//
// All fields but own and phase are set before the function is called and may be
// read at any time.
type scope struct {
	host    *host
	values  context.Context      // the submitter's, or nil
	own     atomic.Pointer[host] // from Hold on, in place of host
	id      uint64               // of the message
	attempt int32
	phase   atomic.Uint32
}

// host is the state that the scopes of a worker share, or those of a chain; a scope
// with a time limit, or that Hold was called with, has a host of its own.
type host struct {
	base   context.Context
	owner  any // the dispatcher
	worker int
	// For the requests of a handler; both are nil for a call of DeadLetter.
	attempts attempts
	claim    claim
	checked  bool            // what handlers touch is checked
	chain    context.Context // that Together has called the handlers with; nil without
}

// attempts is implemented by a worker, for the handler that it runs under s.
type attempts interface {
	release(s *scope, keys []lockkeys.Key) error
	hold(s *scope) (finish func(error), err error)
}

// claim gives access to the claim of the message that s belongs to: the worker
// implements it, and from Hold on the hold.
type claim interface {
	holds(s *scope, requests []lockkeys.Request) error
	touch(ctx context.Context, s *scope, a Access)
	held(s *scope) ([]lockkeys.Request, error)
}

// The phases of a scope. Release, Hold and Holds work on the message under the
// mutex; the worker works on it without the mutex once the handler has
// returned. To exclude each other, both must first change the phase from
// handlerRuns to their own. Touch and ClaimOf do what Holds does.
//
//	phase            what happens                        next phase
//	handlerRuns      Release, Hold or Holds is called    handlerAsks
//	handlerAsks      it is done                          handlerRuns
//	handlerRuns      the handler returns                 handlerReturned
//	handlerReturned  the message is settled: it has      attemptOver
//	                 ended, or is to be tried again,
//	                 parked or left for Shutdown
//
// A message that is held stays in handlerReturned until it has been finished.
const (
	handlerRuns uint32 = iota
	handlerAsks
	handlerReturned
	attemptOver
)

// beginUse reports whether the handler still runs, and if so keeps the worker
// from going on with its message until endUse. Both need the mutex.
func (s *scope) beginUse() bool { return s.phase.CompareAndSwap(handlerRuns, handlerAsks) }

func (s *scope) endUse() { s.phase.Store(handlerRuns) }

// returned records that the handler has returned: from then on Release, Hold
// and Holds are refused. It waits, by means of mu, for a call that is under
// way.
func (s *scope) returned(mu sync.Locker) {
	if !s.phase.CompareAndSwap(handlerRuns, handlerReturned) {
		mu.Lock()
		s.phase.Store(handlerReturned)
		mu.Unlock()
	}
}

type scopeKey struct{}

// now returns the host in effect.
func (s *scope) now() *host {
	if own := s.own.Load(); own != nil {
		return own
	}
	return s.host
}

func (s *scope) Deadline() (time.Time, bool) { return s.now().base.Deadline() }
func (s *scope) Done() <-chan struct{}       { return s.now().base.Done() }
func (s *scope) Err() error                  { return s.now().base.Err() }

func (s *scope) Value(key any) any {
	if _, ok := key.(scopeKey); ok {
		return s
	}
	if v := s.now().base.Value(key); v != nil || s.values == nil || ofcall.Is(key) {
		return v
	}
	return valueOutside(s.values, key)
}

// valuesOf returns a context with the values of ctx, or nil if ctx is known to
// have none. For a handler's own context it returns the one that this has its
// values from, so that messages which submit each other do not build a chain of
// contexts.
func valuesOf(ctx context.Context) context.Context {
	if s, ok := ctx.(*scope); ok {
		return s.values
	}
	if ctx == context.Background() || ctx == context.TODO() {
		return nil
	}
	return ctx
}

// valueOutside returns a value of the context that a message was submitted with. If that was
// derived from the context of a handler in a chain, the message is no part of the chain's
// unit of work, which may be undone, or over, by the time that the message runs: so it has
// none of the values that Together has added for the chain.
func valueOutside(ctx context.Context, key any) any {
	v := ctx.Value(key)
	if v == nil {
		return nil
	}
	of, ok := ctx.Value(scopeKey{}).(*scope)
	if !ok || of.host.chain == nil {
		return v
	}
	if added := of.host.chain.Value(key); added == nil || !same(v, added) {
		return v
	}
	if of.values == nil {
		return nil
	}
	return valueOutside(of.values, key)
}

// same reports whether two values are equal, or of one type that cannot be compared.
func same(a, b any) bool {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	return x.Type() == y.Type() && (!x.Comparable() || !y.Comparable() || a == b)
}
