// Package eventlog measures package replay/eventlog beside a table of events written by
// hand in the same database, with the same number of flushes.
//
//	go test -run '^$' -bench . ./eventlog
package eventlog
