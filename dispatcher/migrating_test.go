package dispatcher_test

import (
	"context"
	"errors"
	"hash/fnv"
	"sort"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// What follows is shown in MIGRATING.md: each piece of code there is a part of this file, which
// package docs checks.

type payment struct{ client, account, to string }

func hash(s string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s))
	return int(h.Sum32() % shards)
}

const shards = 8

func shardedChannels(payments []payment, handle func(payment)) {
	var workers sync.WaitGroup
	channels := make([]chan payment, shards)
	for i := range channels {
		channels[i] = make(chan payment, 100)
		workers.Go(func() {
			for p := range channels[i] {
				handle(p)
			}
		})
	}
	for _, p := range payments {
		channels[hash(p.account)] <- p
	}
	for _, c := range channels {
		close(c)
	}
	workers.Wait()
}

func insteadOfChannels(ctx context.Context, payments []payment, handle func(payment)) error {
	d, err := dispatcher.New(dispatcher.Config[payment]{
		Workers: shards,
		Keys: func(p payment, claim *lockkeys.Claim) error {
			claim.Exclusive(lockkeys.Must("client", p.client, "account", p.account))
			return nil
		},
		Handler: func(_ context.Context, p payment) error { handle(p); return nil },
	})
	if err != nil {
		return err
	}
	for _, p := range payments {
		if err := d.Submit(ctx, p); err != nil {
			return err
		}
	}
	return errors.Join(d.Drain(ctx), d.Close())
}

type keyedMutexes struct{ byAccount sync.Map }

func (m *keyedMutexes) lock(accounts ...string) (unlock func()) {
	sort.Strings(accounts) // or two transfers deadlock
	for _, a := range accounts {
		mutex, _ := m.byAccount.LoadOrStore(a, new(sync.Mutex))
		mutex.(*sync.Mutex).Lock()
	}
	return func() {
		for _, a := range accounts {
			mutex, _ := m.byAccount.Load(a)
			mutex.(*sync.Mutex).Unlock()
		}
	}
}

func (m *keyedMutexes) transfer(p payment, handle func(payment)) {
	defer m.lock(p.account, p.to)()
	handle(p)
}

func insteadOfMutexes(handle func(payment)) (*dispatcher.Dispatcher[payment], error) {
	return dispatcher.New(dispatcher.Config[payment]{
		Keys: func(p payment, claim *lockkeys.Claim) error {
			claim.Exclusive(lockkeys.Must("account", p.account), lockkeys.Must("account", p.to))
			return nil
		},
		Handler: func(_ context.Context, p payment) error { handle(p); return nil },
	})
}

func transfer(ctx context.Context, d *dispatcher.Dispatcher[payment], p payment) error {
	return d.Do(ctx, p) // returns when it is done, as the method with the mutexes does
}

func creditCheck(client string, claim *lockkeys.Claim) {
	claim.Shared(lockkeys.Must("client", client)) // all accounts of the client, nobody changes one meanwhile
}

func TestMigrating(t *testing.T) {
	payments := make([]payment, 1000)
	for i := range payments {
		payments[i] = payment{"1", string(rune('a' + i%5)), string(rune('a' + (i+1)%5))}
	}
	for name, run := range map[string]func(handle func(payment)){
		"channels":            func(handle func(payment)) { shardedChannels(payments, handle) },
		"instead of channels": func(handle func(payment)) { require.NoError(t, insteadOfChannels(t.Context(), payments, handle)) },
		"mutexes": func(handle func(payment)) {
			var m keyedMutexes
			for _, p := range payments {
				m.transfer(p, handle)
			}
		},
		"instead of mutexes": func(handle func(payment)) {
			d, err := insteadOfMutexes(handle)
			require.NoError(t, err)
			for _, p := range payments {
				require.NoError(t, transfer(t.Context(), d, p))
			}
			require.NoError(t, d.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int64
			run(func(payment) { n.Add(1) })
			assert.EqualValues(t, len(payments), n.Load())
		})
	}
	var claim lockkeys.Claim
	creditCheck("1", &claim)
	assert.True(t, claim.Conflicts(lockkeys.NewClaim(lockkeys.Request{Key: lockkeys.Must("client", "1", "account", "a")})))
}
