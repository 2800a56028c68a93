package recovery

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/bench/internal/measure"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// BenchmarkPark parks streams beside others that are parked already: each for itself, or
// all for one reason, with which it grows. It should not cost more beside many.
func BenchmarkPark(b *testing.B) {
	for _, store := range stores {
		for _, reason := range []string{"each", "all"} {
			b.Run(fmt.Sprintf("store=%s/reason=%s", store.name, reason), func(b *testing.B) {
				var race measure.Race
				for _, beside := range []int{1000, 100_000} {
					race.Run(b, fmt.Sprint("beside-", beside), func(b *testing.B) {
						term, err := store.open(b).Begin(b.Context(), ordering.Consumer{})
						require.NoError(b, err)
						id := func(i int) string {
							if reason == "all" {
								return reason
							}
							return fmt.Sprint(i)
						}
						for i := 0; i < beside; i += 1000 { // together, to be quick
							park(b, term, id(i), i, i+1000)
						}
						b.ResetTimer()
						for i := range b.N {
							park(b, term, id(beside+i), beside+i, beside+i+1)
						}
						b.StopTimer()
					})
				}
			})
		}
	}
}

func park(t testing.TB, term ordering.Term, id string, from, to int) {
	p := ordering.Parking{ID: id, Reason: ordering.Failure, Error: "bad", Since: time.Now()}
	var keys []lockkeys.Key
	for i := from; i < to; i++ {
		keys = append(keys, stream(i))
		p.Streams = append(p.Streams, ordering.ParkedStream{Stream: stream(i), Number: 1})
	}
	states, err := term.Acquire(t.Context(), keys)
	require.NoError(t, err)
	fences := ordering.Fences{}
	for i, key := range keys {
		fences[key] = states[i].Fence
	}
	require.NoError(t, term.Park(t.Context(), []ordering.Parking{p}, fences))
}
