//go:build race

package main

// raceDetector reports whether the race detector is on, under which an SQLite
// that is written in Go takes ten times as long.
const raceDetector = true
