package sqlstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
)

// In whatever order the numbers of a stream become done, of brief records the job states
// are kept whose next number is not done, and all others for good.
func TestBriefJobStates(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		store := open()
		for seed := range uint64(6) {
			r := rand.New(rand.NewPCG(seed, 2))
			stream := lockkeys.Must("brief", fmt.Sprint(seed))
			term := in(t, store)
			states, err := term.Acquire(t.Context(), []lockkeys.Key{stream})
			require.NoError(t, err)
			const n = 40
			order := make([]uint64, n)
			for i := range order {
				order[i] = uint64(i + 1)
			}
			for i := range order { // late ones by a few places
				j := min(n-1, i+r.IntN(4))
				order[i], order[j] = order[j], order[i]
			}
			done, notable := map[uint64]bool{}, map[uint64]bool{}
			commit := func(ctx context.Context, number uint64) error {
				e := &ordering.Event{ID: fmt.Sprint("e", number), Positions: []ordering.Position{{Stream: stream, Number: number}}}
				info := term.Info()
				record := ordering.Record{Event: e, Term: &info, Fences: []int64{states[0].Fence}, Brief: true,
					JobState: ordering.JobState{Event: e.ID, Positions: e.Positions, Status: ordering.StatusApplied, Attempts: 1}}
				switch r.IntN(8) {
				case 0:
					record.Attempts = 2
				case 1:
					record.JobState.Status = ordering.StatusDeadLettered
				case 2:
					record.Reply = []byte("reply")
				}
				done[number], notable[number] = true, !record.IsBrief()
				return store.Commit(ctx, record)
			}
			for rest := order; len(rest) > 0; {
				some := rest[:min(len(rest), 1+r.IntN(5))]
				rest = rest[len(some):]
				if len(some) == 1 {
					require.NoError(t, commit(t.Context(), some[0]))
				} else {
					require.NoError(t, store.Together(t.Context(), func(ctx context.Context) error {
						for _, number := range some {
							if err := commit(ctx, number); err != nil {
								return err
							}
						}
						return nil
					}))
				}
				var want []uint64
				for number := range done {
					if notable[number] || !done[number+1] {
						want = append(want, number)
					}
				}
				slices.Sort(want)
				text := ""
				for _, number := range want {
					text += fmt.Sprintln(number)
				}
				require.Equal(t, text, dump(t, store, fmt.Sprintf(`SELECT number FROM ordering_jobs WHERE stream = '%s' ORDER BY number`, stream)))
			}
			positions := make([]ordering.Position, n)
			for i := range positions {
				positions[i] = ordering.Position{Stream: stream, Number: uint64(i + 1)}
			}
			numbers, err := term.Look(t.Context(), positions)
			require.NoError(t, err)
			for i, state := range numbers {
				number := uint64(i + 1)
				assert.True(t, state.Done)
				assert.Equal(t, notable[number] || number == n, state.Job != nil, "%d", number)
				assert.True(t, state.Pruned || state.Job != nil, "%d is not taken for one that another event has made done", number)
			}
		}
	})
}
