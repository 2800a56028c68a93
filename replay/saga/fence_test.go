package saga_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/saga"
)

// TestFenced: once another coordinator has begun, nothing of the old one becomes durable
// any more, and it stops.
func TestFenced(t *testing.T) {
	everywhere(t, func(t *testing.T, where string) {
		store := open(t, where)
		inside, goOn := make(chan struct{}), make(chan struct{})
		hang := asks(func(context.Context, saga.Call, *order) error {
			close(inside)
			<-goOn
			return nil
		})
		old := coordinator(t, config(store), saga.Register(hang))
		start(t, old, store, "1", order{Product: "7"})
		start(t, old, store, "2", order{Product: "7"}) // waits
		<-inside
		heirs := store
		if store.MaxHandlers() > 0 {
			heirs = open(t, where) // another store on the database
		}
		again, wait := make(chan struct{}, 2), make(chan struct{})
		heir := coordinator(t, config(heirs), saga.Register(asks(func(context.Context, saga.Call, *order) error {
			again <- struct{}{}
			<-wait
			return saga.Wait
		})))
		<-again     // so nothing of the run has changed, but the term
		close(goOn) // the action of the old one succeeds
		<-old.Done()
		require.NoError(t, old.Close())
		run, err := heir.Run(t.Context(), "1")
		require.NoError(t, err)
		require.Equal(t, saga.Started, run.Steps[1].Status)
		close(wait)
		until(t, heir, "1", awaiting)
		require.ErrorIs(t, old.Err(), ordering.ErrFenced)
		var taken *ordering.TakenOverError
		require.ErrorAs(t, old.Err(), &taken)
		require.ErrorIs(t, old.Cancel(t.Context(), "1", ""), ordering.ErrFenced)
		require.ErrorIs(t, old.Reply(t.Context(), "1", "ask", nil), ordering.ErrFenced)
		require.ErrorIs(t, old.Do(t.Context(), func(claim *lockkeys.Claim) { claim.Exclusive(product("7")) }, func(context.Context) error { panic("two have the key") }), ordering.ErrFenced)
		require.ErrorIs(t, old.Write(t.Context(), func(context.Context, *sql.Tx) error { panic("two write") }), ordering.ErrFenced)
		for _, id := range []string{"1", "2"} {
			require.NoError(t, heir.Reply(t.Context(), id, "ask", []byte("yes")))
			assert.Equal(t, saga.Completed, ended(t, heir, id).Status)
			assert.Equal(t, []string{"reserved", "replied", "shipped"}, effectsOf(t, store, id))
		}
	})
}

// A coordinator in another process is taken over while it works. All runs end as they
// should, and no effect is there twice.
func TestAnotherProcessIsTakenOver(t *testing.T) {
	s, err := server()
	require.NoError(t, err)
	where := s.Database(t)
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), childEnv+"="+where)
	_, err = process.StdinPipe() // it ends with this process at the latest
	require.NoError(t, err)
	out, err := process.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, process.Start())
	lines := bufio.NewScanner(out)
	for n := 0; n < 150 && lines.Scan(); n++ {
		continue
	}
	read, stopped := make(chan struct{}), make(chan string, 1)
	go func() { // so that it goes on
		defer close(read)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "stopped:") {
				stopped <- lines.Text()
			}
		}
	}()
	store := open(t, where)
	const holder = "the test"
	cfg := config(store)
	cfg.Holder = holder
	c := coordinator(t, cfg, saga.Register(trip(store)))
	for i := range manyRuns {
		id := fmt.Sprint(i)
		ended(t, c, id)
		seen := map[string]bool{}
		for _, what := range effectsOf(t, store, id) {
			assert.False(t, seen[what], "%s of %s twice", what, id)
			seen[what] = true
		}
		if i%3 == 0 {
			assert.Len(t, seen, 6)
		} else {
			assert.Len(t, seen, 4)
		}
	}
	assert.Contains(t, <-stopped, fmt.Sprintf(`was taken over by %s, for consumer "saga/default"`, holder))
	require.NoError(t, process.Process.Kill())
	<-read
	require.Error(t, process.Wait())
	require.NoError(t, c.Err())
}

// TestIdleCoordinatorIsTakenOver: it notices by itself, and lets nobody have keys any more.
func TestIdleCoordinatorIsTakenOver(t *testing.T) {
	store := open(t, t.TempDir()+"/saga.db")
	old := coordinator(t, config(store), saga.Register(asks(waits)))
	coordinator(t, config(store), saga.Register(asks(waits)))
	<-old.Done()
	require.ErrorIs(t, old.Err(), ordering.ErrFenced)
	require.ErrorIs(t, old.Do(t.Context(), func(*lockkeys.Claim) {}, func(context.Context) error { panic("it must not run") }), ordering.ErrFenced)
}

// TestTheStoreLosesData: a coordinator does not go on from an older state of a run, as if what
// it had made durable had never been.
func TestTheStoreLosesData(t *testing.T) {
	for name, lose := range map[string]string{
		"some events": `UPDATE saga_runs SET version = version - 1`,
		"the run":     `DELETE FROM saga_runs`,
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, where string) {
				store := open(t, where)
				c := coordinator(t, config(store), saga.Register(asks(waits)))
				start(t, c, store, "1", order{})
				run := until(t, c, "1", awaiting)
				require.NoError(t, store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
					_, err := tx.ExecContext(ctx, lose)
					return err
				}))
				require.Error(t, c.Reply(t.Context(), "1", "ask", []byte("yes")))
				var lost *ordering.LostError
				require.ErrorAs(t, c.Err(), &lost)
				assert.Equal(t, "saga/1", lost.Stream.String())
				assert.EqualValues(t, run.History[len(run.History)-1].N, lost.Known)
				assert.Less(t, lost.Has, lost.Known)
			})
		})
	}
}
