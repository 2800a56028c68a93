// Package storetest has the tests that every [ordering.Store] must pass: the
// promises of its doc comments, one by one, and a plain model that it is
// compared with.
package storetest

import (
	"fmt"
	"testing"

	"github.com/interlock-go/interlock/ordering"
)

// Kind is a kind of store.
type Kind struct {
	// New creates an empty database, and returns a function that opens a store on it.
	// That may be called several times, and several stores may be open at once. The
	// tests close what they open; a cleanup may close a store once more.
	New func(t *testing.T) (open func() ordering.Store)

	// Durable says that what was written is there after Close. If it is false, open
	// returns the same store each time.
	Durable bool

	// OneWriter says that opening another store on the same database ends all terms of
	// the stores before; and that a term which acquires a stream again keeps its token,
	// if nobody else has acquired it since.
	OneWriter bool
}

// Run tests a kind of store. The name of each subtest is a promise.
func Run(t *testing.T, k Kind) {
	for _, group := range []struct {
		name  string
		tests []test
	}{
		{"acquire", acquireTests},
		{"commit", commitTests},
		{"fencing", fencingTests},
		{"terms", termTests},
		{"lost", lostTests},
		{"commands", commandTests},
		{"marks", markTests},
		{"decisions", decisionTests},
		{"look", lookTests},
		{"skip", skipTests},
		{"epochs", epochTests},
		{"hold", holdTests},
		{"park", parkTests},
		{"jobs", jobTests},
		{"text", textTests},
		{"life", lifeTests},
		{"race", raceTests},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, test := range group.tests {
				t.Run(test.promise, func(t *testing.T) {
					if test.durable && !k.Durable {
						t.Skip("this kind of store ends with the process")
					}
					if test.newTokens && k.OneWriter {
						t.Skip("of this kind of store a term keeps its tokens")
					}
					f := &fixture{T: t, open: k.New(t)}
					f.holder = f.openFor("")
					test.run(f)
				})
			}
		})
	}
	t.Run("model", func(t *testing.T) { checkModel(t, k) })
}

// test is the test of one promise.
type test struct {
	promise   string
	run       func(f *fixture)
	durable   bool // for durable kinds only
	newTokens bool // not for kinds with one writer
}

// fixture is an empty database, and the holder that first opened a store on it.
type fixture struct {
	*testing.T
	*holder
	open       func() ordering.Store
	partitions int // that were begun beside that of the first holder
}

func (f *fixture) openFor(partition string) *holder {
	store := f.open()
	f.Cleanup(func() { _ = store.Close() })
	return newHolder(f.T, store, ordering.Consumer{Partition: partition})
}

func (f *fixture) nextPartition() string {
	f.partitions++
	return fmt.Sprint("partition ", f.partitions)
}

// another opens one more store on the same database, for another partition.
func (f *fixture) another() *holder { return f.openFor(f.nextPartition()) }

// beside begins a term of another partition on the same store.
func (f *fixture) beside() *holder {
	return newHolder(f.T, f.store, ordering.Consumer{Partition: f.nextPartition()})
}

// reopen closes the store, opens another and begins the next term.
func (f *fixture) reopen() {
	f.Helper()
	f.ok(f.store.Close())
	f.holder = f.openFor("")
}
