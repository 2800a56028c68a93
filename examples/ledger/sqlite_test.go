package main

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
)

// dataSets are the inputs that every kind of run is tried with. They are shared,
// and not to be changed.
var dataSets = map[string]func(t *testing.T) []*book.Message{
	"made up":   loaded(func(t *testing.T) []*book.Message { return madeUp(t, 20_000) }),
	"hackclub":  loaded(journal("hackclub-ledger")),
	"standard":  loaded(journal("ledger-standard")),
	"bcexample": loaded(journal("hledger-examples", "bcexample")),
	"bench":     loaded(journal("hledger-examples", "bench-10000x1000x10")),
	"berka":     loaded(func(t *testing.T) []*book.Message { return berkaMessages(t).messages }),
	"ethereum":  loaded(ethereumMessages),
	"beancount": loaded(func(t *testing.T) []*book.Message {
		ms, _ := beancountMessages(t, readTable(t, "beancount-examples", "example-stream.csv"))
		return ms
	}),
}

// loaded returns a function that loads messages when it is first called.
func loaded(load func(t *testing.T) []*book.Message) func(t *testing.T) []*book.Message {
	var mu sync.Mutex
	var ms []*book.Message
	return func(t *testing.T) []*book.Message {
		mu.Lock()
		defer mu.Unlock()
		if ms == nil {
			ms = load(t)
		}
		return ms
	}
}

func journal(folder ...string) func(t *testing.T) []*book.Message {
	file := func(t *testing.T, name string) table {
		return readTable(t, append(slices.Clone(folder), name)...)
	}
	return func(t *testing.T) []*book.Message {
		return journalMessages(t, file(t, "postings.csv"), file(t, "expected-running.csv"))
	}
}

// Every data set runs on SQLite as it does in memory: all of it, or the
// beginning under the race detector.
func TestOnSQLite(t *testing.T) {
	t.Parallel()
	for name, load := range dataSets {
		t.Run(name, func(t *testing.T) {
			ms, _ := part(load(t), 250)
			memory := replayAll(t, setup{"memory", 1, dispatcher.HeadOnly()}, ms)
			sqlite := replayAll(t, setup{"", 64, dispatcher.LookAhead(4096)}, ms)
			requireGood(t, memory)
			requireGood(t, sqlite)
			assert.Equal(t, ownOf(memory.Balances), ownOf(sqlite.Balances))
			assert.Equal(t, memory.Audit.Outcomes.Count, sqlite.Audit.Outcomes.Count)
		})
	}
}
