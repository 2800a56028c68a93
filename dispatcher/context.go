package dispatcher

import (
	"context"
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

// InfoFrom returns the Info of the handler whose context ctx is or was made
// from.
func InfoFrom(ctx context.Context) (info Info, ok bool) {
	s, ok := ctx.Value(scopeKey{}).(*scope)
	if !ok {
		return Info{}, false
	}
	return s.info, true
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
// messages have their keys in common.
func Release(ctx context.Context, keys ...lockkeys.Key) error {
	s, ok := ctx.Value(scopeKey{}).(*scope)
	if !ok {
		return ErrNoHandler
	}
	return s.release(s, keys)
}

// scope is the context of a handler. To save an allocation for each message
// a worker uses its scope again, unless the handler has asked it for
// something that could outlive the call, or it has a time limit of its own.
// What changes then is info alone: the rest may be read at any time.
type scope struct {
	base    context.Context
	owner   any // the dispatcher
	info    Info
	release func(s *scope, keys []lockkeys.Key) error
	used    atomic.Bool
	over    bool // the handler has returned; guarded by Dispatcher.mu
}

type scopeKey struct{}

func (s *scope) Deadline() (time.Time, bool) { return s.base.Deadline() }
func (s *scope) Err() error                  { return s.base.Err() }

func (s *scope) Done() <-chan struct{} {
	s.used.Store(true)
	return s.base.Done()
}

func (s *scope) Value(key any) any {
	if _, ok := key.(scopeKey); ok {
		s.used.Store(true)
		return s
	}
	return s.base.Value(key)
}

// within tells whether ctx is that of a handler of the given dispatcher.
func within(ctx context.Context, owner any) bool {
	s, ok := ctx.Value(scopeKey{}).(*scope)
	return ok && s.owner == owner
}
