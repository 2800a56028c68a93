//go:build race

package dispatcher_test

// raceEnabled tells whether the race detector is on. It makes everything
// slower, and allocates.
const raceEnabled = true
