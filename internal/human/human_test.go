package human_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/interlock-go/interlock/internal/human"
)

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0 ms", 999 * time.Millisecond: "999 ms", time.Second: "1 s", 119 * time.Second: "119 s",
		2 * time.Minute: "2 min", 119 * time.Minute: "119 min", 2 * time.Hour: "2 h", 47 * time.Hour: "47 h", 48 * time.Hour: "2 days",
	} {
		assert.Equal(t, want, human.Duration(d))
	}
	now := time.Now()
	assert.Equal(t, "3 s", human.Since(now, now.Add(-3*time.Second)))
	assert.Equal(t, "an unknown time", human.Since(now, time.Time{}))
}
