package replay_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/replay"
)

// All that is wrong with a configuration is named at once.
func TestBadConfig(t *testing.T) {
	_, err := replay.New(replay.Config{})
	require.ErrorIs(t, err, replay.ErrConfig)
	assert.ErrorContains(t, err, "Sources is empty")

	source := scripted(givesAll)
	_, err = replay.New(replay.Config{
		Sources:  []replay.NamedSource{{Name: "log", Source: source}, {Source: source}, {Name: "log"}},
		Attempts: -1, Timeout: -1, MaxWait: -1, MaxOpen: -1, MaxEvents: -1, MaxBytes: -1,
		Backoff: dispatcher.Backoff{Initial: time.Second, Max: time.Millisecond, Multiplier: 0.5, Jitter: 2},
		Breaker: replay.Breaker{Failures: -1, Open: -1},
	})
	require.ErrorIs(t, err, replay.ErrConfig)
	for _, problem := range []string{
		"Sources[1].Name is empty", "Sources[2].Source is nil", `Sources[2].Name is "log"`,
		"Attempts is -1", "Timeout is -1ns", "MaxWait is -1ns", "MaxOpen is -1", "MaxEvents is -1", "MaxBytes is -1",
		"Backoff.Max is 1ms", "Backoff.Multiplier is 0.5", "Backoff.Jitter is 2", "Breaker.Failures is -1", "Breaker.Open is -1ns",
	} {
		assert.ErrorContains(t, err, problem)
	}
}
