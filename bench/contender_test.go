package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock/bench/internal/stat"
	"github.com/stretchr/testify/require"
)

func TestEveryMessageIsHandledOnce(t *testing.T) {
	const n = 2000
	for _, contender := range Contenders {
		for _, workload := range Workloads {
			for _, workers := range []int{1, 8, 128} {
				c := NewCase().With(workload)
				c.Workers = workers
				handled := make([]atomic.Int32, n)
				var done sync.WaitGroup
				done.Add(n)
				r := contender.start(c.Setup, func(_ context.Context, m *Msg) error {
					handled[m.N].Add(1)
					done.Done()
					return nil
				})
				for _, m := range c.Make(n) {
					r.Submit(m)
				}
				done.Wait()
				r.Close()
				for i := range handled {
					require.EqualValues(t, 1, handled[i].Load(), "%s, %v, message %d", contender.Name, c, i)
				}
			}
		}
	}
}

// The order of all conflicting pairs, on every workload. Time is a count of
// beginnings and ends.
func TestInterlockKeepsOrder(t *testing.T) {
	const n = 5000
	for _, contender := range []Contender{LookAhead, HeadOnly} {
		for _, workload := range Workloads {
			for _, keys := range []int{10, 1000} {
				c := NewCase().With(workload)
				c.Keys = keys
				msgs := c.Make(n)
				var clock atomic.Int64
				r := contender.start(c.Setup, func(_ context.Context, m *Msg) error {
					m.Start = time.Duration(clock.Add(1))
					m.End = time.Duration(clock.Add(1))
					return nil
				})
				for _, m := range msgs {
					r.Submit(m)
				}
				require.NoError(t, r.(*interlock).d.Drain(t.Context()))
				r.Close()
				require.Equal(t, -1, OutOfOrder(msgs), "%s, %v", contender.Name, c)
			}
		}
	}
}

func TestKeyLocksLeaveNothing(t *testing.T) {
	c := NewCase().With("transfer")
	r := startKeyedMutex(c.Setup, func(context.Context, *Msg) error { return nil })
	for _, m := range c.Make(2000) {
		r.Submit(m)
	}
	r.Close()
	require.Empty(t, r.(*keyedMutex).locks.byKey)
}

func TestRoundsMeasureAllContenders(t *testing.T) {
	results := Rounds(NewCase(), Contenders, 2, 500)
	require.Len(t, results, len(Contenders))
	for i, r := range results {
		require.Equal(t, Contenders[i].Name, r.Contender)
		require.Positive(t, r.NS())
		require.Len(t, r.times, 2)
	}
	require.InDelta(t, 1, results[0].To(results[0]), 1e-9)
}

func TestMedian(t *testing.T) {
	require.InDelta(t, 2, stat.Median([]float64{9, 1, 2}), 1e-9)
	require.InDelta(t, 3, stat.Median([]float64{4, 1, 9, 2}), 1e-9)
	require.InDelta(t, 2, stat.Ratio([]float64{2, 8, 9}, []float64{1, 4, 3}), 1e-9)
}

func TestNothingStaysOfKeys(t *testing.T) {
	m := MeasureMemory(100_000)
	require.Less(t, m.After-m.Before, 4.0, "MB")
}
