package dispatcher_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
)

// TestBatchLeavesWhatIsBehindAParkedOne: a message that went back from a batch
// has its place in the order behind an earlier one that has widened meanwhile
// and is behind a parked message. So it is behind that too, and no batch takes
// it, though it is next in line. Nothing of that may be left when it has ended.
func TestBatchLeavesWhatIsBehindAParkedOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		calls := make(map[string]int)
		var batches [][]string
		d := start(t, config{
			Workers: 4, MaxAttempts: 2, Backoff: dispatcher.Backoff{Initial: time.Second, Jitter: -1},
			FailureFor: func(*job, error) dispatcher.FailurePolicy { return dispatcher.Park },
			BatchHandler: func(ctx context.Context, jobs []*job) []error {
				if jobs[0].name == "p" {
					var names []string
					for _, j := range jobs {
						names = append(names, j.name)
					}
					batches = append(batches, names)
				}
				return dispatcher.FailAll(jobs[0].run(ctx), len(jobs))
			},
		})
		// The handler of a call that is not the first does nothing.
		once := func(name string, d time.Duration, ends error) *job {
			return newJob(name, func(context.Context) error {
				mu.Lock()
				calls[name]++
				again := calls[name] > 1
				mu.Unlock()
				if again {
					return nil
				}
				time.Sleep(d)
				return ends
			})
		}
		add := func(j *job, keys ...string) {
			j.keys = requests(keys...)
			submit(t, d, j)
			synctest.Wait()
		}
		add(once("bad", 0, dispatcher.Permanent(errBoom)), "z")
		add(once("wide", 2500*time.Millisecond, dispatcher.Widen(requests("a", "z")...)), "c")
		add(once("hold", time.Second, nil), "a")
		add(once("p", 3*time.Second, errBoom), "a")
		add(once("q", 0, nil), "a")
		add(once("bad later", 4500*time.Millisecond, dispatcher.Permanent(errBoom)), "y")
		time.Sleep(10 * time.Second)
		synctest.Wait()

		require.Equal(t, [][]string{{"p", "q"}, {"p"}}, batches)
		s := d.Stats()
		require.Equal(t, 2, s.Parked)
		require.Equal(t, 2, s.Behind, "wide and q")
		require.Zero(t, s.Waiting)
		for range 100 { // whatever memory q had is used again
			submit(t, d, newJob("bad", takes(0, dispatcher.Permanent(errBoom)), "n"))
			synctest.Wait()
			for _, p := range d.Parked() {
				require.NoError(t, d.Skip(t.Context(), p.ID))
			}
		}
		drain(t, d)
		require.Equal(t, 2, calls["wide"])
		s = d.Stats()
		require.Equal(t, s.Accepted, s.Succeeded+s.Failed)
	})
}
