package bench

import (
	"context"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
)

// pool is the floor: workers that read one channel. It does not look at keys.
type pool struct {
	queue   chan *Msg
	workers sync.WaitGroup
}

func startPool(s Setup, h Handler) runner {
	r := &pool{queue: make(chan *Msg, s.Bound)}
	for range s.Workers {
		r.workers.Go(func() {
			for m := range r.queue {
				_ = h(context.Background(), m)
			}
		})
	}
	return r
}

func (r *pool) Submit(m *Msg) { r.queue <- m }

func (r *pool) Close() {
	close(r.queue)
	r.workers.Wait()
}

// sharded is what one writes by hand for order by key: a channel for each
// worker, chosen by the hash of the message's first key. A second key is not
// looked at, nor is one above or below.
type sharded struct {
	seed    maphash.Seed
	queues  []chan *Msg
	workers sync.WaitGroup
}

func startSharded(s Setup, h Handler) runner {
	r := &sharded{seed: maphash.MakeSeed()}
	for range s.Workers {
		queue := make(chan *Msg, max(s.Bound/s.Workers, 1))
		r.queues = append(r.queues, queue)
		r.workers.Go(func() {
			for m := range queue {
				_ = h(context.Background(), m)
			}
		})
	}
	return r
}

func (r *sharded) Submit(m *Msg) {
	r.queues[maphash.String(r.seed, m.Paths[0])%uint64(len(r.queues))] <- m
}

func (r *sharded) Close() {
	for _, q := range r.queues {
		close(q)
	}
	r.workers.Wait()
}

// keyedMutex is the floor with a mutex for each key, locked in sorted order
// so that two messages cannot wait for each other. Which of two messages gets
// a key first is chance.
type keyedMutex struct {
	pool  runner
	locks keyLocks
}

func startKeyedMutex(s Setup, h Handler) runner {
	r := &keyedMutex{locks: keyLocks{byKey: make(map[string]*keyLock)}}
	r.pool = startPool(s, func(ctx context.Context, m *Msg) error {
		var room [2]*keyLock
		held := r.locks.lock(m.Paths, room[:0])
		err := h(ctx, m)
		r.locks.unlock(held)
		return err
	})
	return r
}

func (r *keyedMutex) Submit(m *Msg) { r.pool.Submit(m) }
func (r *keyedMutex) Close()        { r.pool.Close() }

// keyLocks has a mutex for each key in use. Mutexes are counted and go when
// nobody needs them, so that memory does not grow with the keys ever seen.
type keyLocks struct {
	mu    sync.Mutex
	byKey map[string]*keyLock
	free  []*keyLock
}

type keyLock struct {
	mu   sync.Mutex
	key  string
	refs int // guarded by keyLocks.mu
}

// lock locks the mutexes of paths and appends them to held.
func (l *keyLocks) lock(paths []string, held []*keyLock) []*keyLock {
	l.mu.Lock()
	for _, path := range paths {
		k := l.byKey[path]
		if k == nil {
			k = l.newLocked(path)
		}
		k.refs++
		held = append(held, k)
	}
	l.mu.Unlock()
	if len(held) > 1 {
		slices.SortFunc(held, func(a, b *keyLock) int { return strings.Compare(a.key, b.key) })
	}
	for _, k := range held {
		k.mu.Lock()
	}
	return held
}

func (l *keyLocks) newLocked(path string) *keyLock {
	var k *keyLock
	if n := len(l.free); n > 0 {
		k, l.free = l.free[n-1], l.free[:n-1]
	} else {
		k = new(keyLock)
	}
	k.key = path
	l.byKey[path] = k
	return k
}

func (l *keyLocks) unlock(held []*keyLock) {
	for _, k := range held {
		k.mu.Unlock()
	}
	l.mu.Lock()
	for _, k := range held {
		if k.refs--; k.refs == 0 {
			delete(l.byKey, k.key)
			l.free = append(l.free, k)
		}
	}
	l.mu.Unlock()
}
