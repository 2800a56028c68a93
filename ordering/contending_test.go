package ordering

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hesitant is a store and its term, which answers what it knows of commands only when it
// is let.
type hesitant struct {
	*Memory
	Term
	answer chan struct{}
}

func (s *hesitant) Begin(ctx context.Context, c Consumer) (_ Term, err error) {
	s.Term, err = s.Memory.Begin(ctx, c)
	return s, err
}

func (s *hesitant) Commit(ctx context.Context, r Record) error { return s.Term.Commit(ctx, r) }

func (s *hesitant) Close() error { return s.Memory.Close() }

func (s *hesitant) LookCommands(ctx context.Context, ids []string) ([]*JobState, error) {
	select {
	case <-s.answer:
		return s.Term.LookCommands(ctx, ids)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestACopyBehindAnImpostor: another command with the ID of one that was done is in flight
// when that comes again. The copy gets its reply; only the other one is refused.
func TestACopyBehindAnImpostor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &hesitant{Memory: NewMemory(), answer: make(chan struct{}, 9)}
		c := &counter{}
		r := newRig(t, store)
		r.start(Config[*Event]{Handler: c.handle})
		do := func(payload string) <-chan string {
			told := make(chan string, 1)
			go func() {
				o, err := r.seq.Do(t.Context(), command("pay-1", payload))
				told <- fmt.Sprint(o.Result, " ", string(o.Reply), " ", err)
			}()
			synctest.Wait()
			return told
		}
		store.answer <- struct{}{}
		first := <-do("10")
		require.Equal(t, "applied 1 <nil>", first)

		impostor := do("11")
		copies := []<-chan string{do("10"), do("10")}
		for _, told := range copies {
			require.Empty(t, told, "the store has not said yet whose the ID is")
		}
		store.answer <- struct{}{}
		store.answer <- struct{}{}
		assert.Contains(t, <-impostor, "refused  ")
		for _, told := range copies {
			assert.Equal(t, "duplicate 1 <nil>", <-told)
		}
		assert.Equal(t, 1, c.runs)
		assert.EqualValues(t, 1, r.seq.Stats().Conflicts)
		r.stop()
	})
}

// TestAShutdownBehindAnImpostor: who waits for an ID is given back with all others.
func TestAShutdownBehindAnImpostor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &hesitant{Memory: NewMemory(), answer: make(chan struct{})}
		r := newRig(t, store)
		r.start(Config[*Event]{})
		outcomes := make(chan Outcome, 2)
		for _, payload := range []string{"10", "11"} {
			require.NoError(t, r.seq.Offer(t.Context(), command("pay-1", payload), func(_ *Event, o Outcome) { outcomes <- o }))
		}
		synctest.Wait()
		over, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, r.seq.Shutdown(over), context.Canceled)
		for range 2 {
			o := <-outcomes
			assert.Equal(t, Unfinished, o.Result)
			assert.ErrorIs(t, o.Err, ErrClosed)
		}
		r.stop()
	})
}
