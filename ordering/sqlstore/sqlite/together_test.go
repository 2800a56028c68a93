package sqlite_test

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// TestManyOpenANewFileAtOnce: each of them has a store, and one of them has it
// last.
func TestManyOpenANewFileAtOnce(t *testing.T) {
	for range 20 {
		path := filepath.Join(t.TempDir(), "new.db")
		var wait sync.WaitGroup
		for range 6 {
			wait.Go(func() {
				store, err := sqlite.Open(t.Context(), path)
				if assert.NoError(t, err) {
					assert.NoError(t, store.Close())
				}
			})
		}
		wait.Wait()
	}
}
