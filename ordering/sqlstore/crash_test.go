package sqlstore_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

const (
	childEnv   = "SQLSTORE_TEST_CHILD"
	streams    = 8
	waitAtMost = 5 * time.Minute
	tick       = time.Millisecond
)

func exit() { runtime.Goexit() }

// child commits events on all streams, each where it was, until it is killed.
func child(path string) {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, path)
	if err != nil {
		panic(err)
	}
	term, err := store.Begin(ctx, ordering.Consumer{})
	if err != nil {
		panic(err)
	}
	for i := range streams {
		go func() {
			key := lockkeys.Must(fmt.Sprintf("s%d", i))
			states, err := term.Acquire(ctx, []lockkeys.Key{key})
			if err != nil {
				panic(err)
			}
			for n := states[0].Last + 1; ; n++ {
				e := &ordering.Event{ID: fmt.Sprintf("%v-%d", key, n), Positions: []ordering.Position{{Stream: key, Number: n}}}
				if err := store.Do(ctx, ordering.NewJob(term, e, []int64{states[0].Fence}), effect(e.ID)); err != nil {
					panic(err)
				}
				fmt.Println(e.ID)
			}
		}()
	}
	select {}
}

// TestKilledInGroupCommits kills a real process with kill -9 at random
// instants: what it said is durable is there, with its effect, once.
func TestKilledInGroupCommits(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "positions.db")
	store := closed(t)(sqlite.Open(t.Context(), path))
	require.NoError(t, store.Close())
	told := map[string]bool{}
	const kills = 8
	for range kills {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), childEnv+"="+path)
		out, err := c.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, c.Start())
		lines := bufio.NewScanner(out)
		for n := 1 + rand.IntN(100); n > 0 && lines.Scan(); n-- {
			told[lines.Text()] = true
		}
		require.NoError(t, c.Process.Kill())
		for lines.Scan() {
			told[lines.Text()] = true
		}
		require.Error(t, c.Wait())
	}
	// A last line may have been cut short by the kill.
	store = closed(t)(sqlite.Open(t.Context(), path))
	total := uint64(0)
	for i := range streams {
		stream := fmt.Sprintf("s%d", i)
		n := last(t, store, stream)
		total += n
		for k := uint64(1); k <= n; k++ {
			id := fmt.Sprintf("%s-%d", stream, k)
			delete(told, id)
			known, err := in(t, store).Look(t.Context(), []ordering.Position{{Stream: lockkeys.Must(stream), Number: k}})
			require.NoError(t, err)
			require.NotNil(t, known[0].Job)
			assert.Equal(t, ordering.StatusApplied, known[0].Job.Status)
			assert.Equal(t, id, known[0].Job.Event)
		}
	}
	for id := range told {
		assert.False(t, strings.Count(id, "-") == 1 && len(id) > 3, "%q was said to be durable", id)
	}
	assert.EqualValues(t, total, effects(t, store))
	var distinct int
	require.NoError(t, store.DB().QueryRow(`SELECT count(DISTINCT event) FROM effects`).Scan(&distinct))
	assert.EqualValues(t, total, distinct)
	assert.Greater(t, total, uint64(kills))
}
