//go:build !race

package core

// raceEnabled tells whether the race detector is on. It makes everything
// slower, and allocates.
const raceEnabled = false
