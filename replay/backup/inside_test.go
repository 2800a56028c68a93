package backup

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"":                              0,
		"7":                             7 * time.Second,
		"-7":                            0,
		"soon":                          0,
		"86400":                         time.Hour,
		"Sat, 28 Nov 2026 00:00:09 GMT": 9 * time.Second,
		"Fri, 27 Nov 2026 00:00:00 GMT": 0,
		"Sun, 29 Nov 2026 00:00:00 GMT": time.Hour,
	} {
		assert.Equal(t, want, retryAfter(header, now), header)
	}
}
