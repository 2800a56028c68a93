// Package rabbit measures the cost of publishing and consuming with package
// ordering/rabbitmq, compared with the plain client amqp091-go on the same broker in
// the same run.
//
//	go test -bench . ./rabbit    for benchstat
//	go run ./cmd/targets         beside all other targets
//	go run ./cmd/report          into RESULTS.md
package rabbit
