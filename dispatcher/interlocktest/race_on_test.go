//go:build race

package interlocktest

// raceEnabled tells whether the race detector is on.
const raceEnabled = true
