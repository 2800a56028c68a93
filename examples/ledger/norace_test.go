//go:build !race

package main

// raceDetector tells whether the race detector is on.
const raceDetector = false
