// Package orders measures the shop of examples/orders beside the same shop made in other
// ways: as one transaction on tables (CRUD), as calls of the services without a saga, and
// as a saga without an event log. In all of them a user places an order and waits until it
// is completed.
//
//	go test -bench . -benchtime 2000x ./orders
package orders
