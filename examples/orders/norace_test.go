//go:build !race

package main

// share is the part of the orders that a test places: all.
const share = 1
