package dispatcher_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/interlock-go/interlock/dispatcher"
)

func TestBackoffDefaults(t *testing.T) {
	for name, test := range map[string]struct{ set, want dispatcher.Backoff }{
		"nothing set":   {dispatcher.Backoff{}, dispatcher.Backoff{Initial: 1, Max: 9, Multiplier: 2, Jitter: 0.5}},
		"a long start":  {dispatcher.Backoff{Initial: 20}, dispatcher.Backoff{Initial: 20, Max: 20, Multiplier: 2, Jitter: 0.5}},
		"no jitter":     {dispatcher.Backoff{Jitter: -1}, dispatcher.Backoff{Initial: 1, Max: 9, Multiplier: 2}},
		"all set":       {dispatcher.Backoff{Initial: 2, Max: 3, Multiplier: 4, Jitter: 1}, dispatcher.Backoff{Initial: 2, Max: 3, Multiplier: 4, Jitter: 1}},
		"wrong as well": {dispatcher.Backoff{Initial: -2, Max: -3}, dispatcher.Backoff{Initial: -2, Max: -3, Multiplier: 2, Jitter: 0.5}},
	} {
		assert.Equal(t, test.want, test.set.WithDefaults(1, 9), name)
	}
}

func TestBackoffProblems(t *testing.T) {
	assert.NoError(t, dispatcher.Backoff{}.WithDefaults(1, 2).Validate())
	err := dispatcher.Backoff{Initial: -1, Max: -2, Multiplier: 0.5, Jitter: 2}.Validate()
	for _, field := range []string{"Backoff.Initial is -1ns", "Backoff.Max is -2ns", "Backoff.Multiplier is 0.5", "Backoff.Jitter is 2"} {
		assert.ErrorContains(t, err, field)
	}
	assert.ErrorContains(t, dispatcher.Backoff{Multiplier: math.NaN()}.Validate(), "Backoff.Multiplier is NaN")
	assert.ErrorContains(t, dispatcher.Backoff{Multiplier: 1, Jitter: math.NaN()}.Validate(), "Backoff.Jitter is NaN")
}

// Without jitter the waits grow by Multiplier up to Max, however many attempts
// have failed; with jitter they are at most that share away.
func TestBackoffWaits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := dispatcher.Backoff{
			Initial:    time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "initial")),
			Multiplier: rapid.Float64Range(1, 10).Draw(t, "multiplier"),
			Jitter:     -1,
		}
		b.Max = b.Initial + time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "more"))
		b = b.WithDefaults(0, 0)
		want := float64(b.Initial)
		for failed := 1; failed <= 50; failed++ {
			assert.InDelta(t, want, float64(b.Wait(failed)), 1+want/1e9, "after %d", failed)
			want = min(want*b.Multiplier, float64(b.Max))
		}
		assert.LessOrEqual(t, b.Wait(math.MaxInt), b.Max)
		plain := float64(b.Wait(7))
		b.Jitter = rapid.Float64Range(0, 1).Draw(t, "jitter")
		assert.InDelta(t, plain, float64(b.Wait(7)), b.Jitter*(plain+1)+1, "both waits are rounded down")
	})
}
