// Package parking measures what it costs to park a stream beside many that are
// parked already, and to close many gaps at once.
//
//	go test -bench . -benchtime 1x
package parking
