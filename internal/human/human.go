// Package human writes durations as an operator reads them.
package human

import (
	"fmt"
	"time"
)

// Duration returns a duration in its largest unit, rounded down; in minutes, hours and days
// from two on.
func Duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", max(d, 0).Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// Since returns how long ago a time was.
func Since(now, since time.Time) string {
	if since.IsZero() {
		return "an unknown time"
	}
	return Duration(now.Sub(since))
}
