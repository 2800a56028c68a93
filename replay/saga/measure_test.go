package saga_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/replay/saga"
)

// TestMeasure: each call of a step's function is told, without the waits between them; and
// runs that turn back are counted, each once.
func TestMeasure(t *testing.T) {
	inBubble(t, func(t *testing.T, where string) {
		store := open(t, where)
		var mu sync.Mutex
		var told []view.Step
		cfg := inTime(store)
		cfg.Measure = func(s view.Step) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, s)
		}
		takes := func(d time.Duration, results ...error) func(context.Context, saga.Call, *order) error {
			return func(_ context.Context, call saga.Call, _ *order) error {
				time.Sleep(d)
				return results[call.Attempt-1]
			}
		}
		refused := dispatcher.Permanent(errAway)
		c := coordinator(t, cfg, saga.Register(saga.Definition[order]{Name: "checkout", Version: 1, Steps: []saga.Step[order]{
			{Name: "reserve", Do: takes(time.Second, saga.Wait), Undo: takes(3*time.Second, nil)},
			{Name: "pay", Do: takes(2*time.Second, errAway, refused)},
		}}))
		start(t, c, store, "1", order{})
		time.Sleep(time.Minute)
		require.NoError(t, c.Reply(t.Context(), "1", "reserve", nil))
		time.Sleep(time.Hour)
		run, err := c.Run(t.Context(), "1")
		require.NoError(t, err)
		require.Equal(t, saga.Compensated, run.Status)

		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, []view.Step{
			{Saga: "checkout", Name: "reserve", Took: time.Second},
			{Saga: "checkout", Name: "pay", Took: 2 * time.Second, Err: errAway},
			{Saga: "checkout", Name: "pay", Took: 2 * time.Second, Err: refused},
			{Saga: "checkout", Name: "reserve", Undo: true, Took: 3 * time.Second},
		}, told)
		list, err := c.Metrics(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 1, metric(t, list, "interlock.saga.compensations").Points[0].Value)
	})
}

func metric(t *testing.T, list []view.Metric, name string) view.Metric {
	t.Helper()
	for _, m := range list {
		if m.Name == name {
			return m
		}
	}
	require.Fail(t, "no metric", name)
	return view.Metric{}
}
