// Package orders measures the shop of examples/orders beside the same shop made in other
// ways: as one transaction on tables (CRUD), as calls of the services without a saga, and
// as a saga without an event log. In all of them a user places an order and waits until it
// is completed. It also measures calls of the services over HTTP, gRPC and RabbitMQ, and
// questions to the tables and to the read models; snapshots, and the time from a commit
// to the read model, are measured in bench/eventlog.
//
//	go test -run xxx -bench Contenders -benchtime 1000x -count 3 ./orders
//	go test -run xxx -bench Calls -benchtime 20000x ./orders
//	go test -run xxx -bench Reads -benchtime 1000x ./orders
//	go test -run xxx -bench Transports -benchtime 1000x ./orders
package orders
