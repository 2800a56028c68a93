//go:build race

package main

// share is the part of the orders that a test places under -race, where the database takes
// ten times as long.
const share = 5
