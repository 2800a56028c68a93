// Package isolation counts what sagas on few resources see of each other: how often one
// reads what another one has written and takes back later (a dirty read), overwrites what
// another one has written since it read (a lost update), or reads twice and finds two
// values (a fuzzy read). It compares sagas that keep a lock key, sagas that keep nothing,
// and the usual countermeasure, a flag in the row by which others wait for the saga that
// has set it.
//
//	go test -run '^$' -bench . -benchtime 100000x ./isolation
package isolation
