package store

import (
	"context"
	"maps"
	"sync"

	"github.com/shopspring/decimal"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
)

// cache has states and balances as the last commit left them, so that most messages
// need no query.
//
// Invariant: what is in it is what the database has, as long as this program is the
// one that commits, and of an account it is put there and read only by a message that
// has a lock on the account: after a query, or after a commit that has succeeded, while
// nobody else can change it. If a commit has failed, or may have, all is forgotten, and
// read again.
type cache struct {
	mu struct {
		sync.RWMutex
		states  map[book.Account]book.State
		amounts map[book.Holding]decimal.Decimal
	}
}

// maxCached bounds the states, and the balances.
const maxCached = 1 << 17

func (c *cache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.states, c.mu.amounts = map[book.Account]book.State{}, map[book.Holding]decimal.Decimal{}
}

// put takes what was written or read.
func (c *cache) put(states map[book.Account]book.State, amounts map[book.Holding]decimal.Decimal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.states)+len(states) > maxCached {
		clear(c.mu.states)
	}
	if len(c.mu.amounts)+len(amounts) > maxCached {
		clear(c.mu.amounts)
	}
	maps.Copy(c.mu.states, states)
	maps.Copy(c.mu.amounts, amounts)
}

// chain is what the messages of a call of [Database.Together] have written, which
// nobody else can see yet: it is over all that is read meanwhile.
type chain struct {
	messages int64
	states   map[book.Account]book.State
	amounts  map[book.Holding]decimal.Decimal
	known    map[string]*Known
}

type chainKey struct{}

// chainOf returns the chain that ctx belongs to, or an empty one.
func chainOf(ctx context.Context) *chain {
	if c, ok := ctx.Value(chainKey{}).(*chain); ok {
		return c
	}
	return &noChain
}

var noChain chain

// add takes what a message has written.
func (c *chain) add(r *Result) {
	if r.Changes != nil {
		maps.Copy(c.states, r.Changes.States)
		maps.Copy(c.amounts, r.Changes.Balances)
	}
	if r.Known != nil {
		c.known[r.Known.ID] = r.Known
	}
	if !r.IsCopy() {
		c.messages++
	}
}

// statesOf finds the states of accounts in what a chain has written or else in the
// cache, and returns the accounts that neither has.
func (c *cache) statesOf(written map[book.Account]book.State, accounts []book.Account, states []book.State) (missing []book.Account) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return find(written, c.mu.states, accounts, states)
}

// amountsOf is statesOf for balances.
func (c *cache) amountsOf(written map[book.Holding]decimal.Decimal, holdings []book.Holding, amounts []decimal.Decimal) (missing []book.Holding) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return find(written, c.mu.amounts, holdings, amounts)
}

func find[K comparable, V any](written, kept map[K]V, keys []K, values []V) (missing []K) {
	for i, k := range keys {
		v, ok := written[k]
		if !ok {
			v, ok = kept[k]
		}
		if !ok {
			missing = append(missing, k)
		}
		values[i] = v
	}
	return missing
}
