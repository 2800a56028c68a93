package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
)

// dataSets are the inputs that every kind of run is tried with.
func dataSets() map[string]func(t *testing.T) []*book.Message {
	journal := func(folder ...string) func(t *testing.T) []*book.Message {
		file := func(t *testing.T, name string) table {
			return readTable(t, append(folder[:len(folder):len(folder)], name)...)
		}
		return func(t *testing.T) []*book.Message {
			return journalMessages(t, file(t, "postings.csv"), file(t, "expected-running.csv"))
		}
	}
	return map[string]func(t *testing.T) []*book.Message{
		"made up":   func(t *testing.T) []*book.Message { return madeUp(t, 20_000) },
		"hackclub":  journal("hackclub-ledger"),
		"standard":  journal("ledger-standard"),
		"bcexample": journal("hledger-examples", "bcexample"),
		"bench":     journal("hledger-examples", "bench-10000x1000x10"),
		"berka":     func(t *testing.T) []*book.Message { return berkaMessages(t).messages },
		"ethereum":  ethereumMessages,
		"beancount": func(t *testing.T) []*book.Message {
			ms, _ := beancountMessages(t, readTable(t, "beancount-examples", "example-stream.csv"))
			return ms
		},
	}
}

// Every data set runs on SQLite as it does in memory: all of it, or the
// beginning under the race detector.
func TestOnSQLite(t *testing.T) {
	for name, load := range dataSets() {
		t.Run(name, func(t *testing.T) {
			ms := load(t)
			if raceDetector {
				ms = ms[:min(len(ms), 500)]
			}
			memory := replayAll(t, setup{"memory", 1, dispatcher.HeadOnly()}, ms)
			sqlite := replayAll(t, setup{"", 64, dispatcher.LookAhead(4096)}, ms)
			requireGood(t, memory)
			requireGood(t, sqlite)
			assert.Equal(t, ownOf(memory.Balances), ownOf(sqlite.Balances))
			assert.Equal(t, memory.Audit.Outcomes.Count, sqlite.Audit.Outcomes.Count)
		})
	}
}
