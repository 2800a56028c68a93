package settings_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/settings"
)

var errConfig = errors.New("bakery: bad configuration")

func TestWhatIsSetIsKept(t *testing.T) {
	workers, timeout := 3, time.Duration(0)
	settings.Default(&workers, 8)
	settings.Default(&timeout, time.Second)
	require.Equal(t, 3, workers)
	require.Equal(t, time.Second, timeout)
}

func TestEveryProblemIsNamed(t *testing.T) {
	var p settings.Problems
	p.Add(false, "Oven is %q", "on")
	require.NoError(t, p.Err(errConfig), "nothing is wrong")

	stale := errors.New("stale")
	p.Add(true, "Workers is %d: it must be at least 1", 0)
	p.Add(true, "Flour: %w", stale)
	err := p.Err(errConfig)
	require.EqualError(t, err, "bakery: bad configuration: Workers is 0: it must be at least 1\nFlour: stale")
	require.ErrorIs(t, err, errConfig)
	require.ErrorIs(t, err, stale)
}
