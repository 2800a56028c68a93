// Package rabbit measures the cost of publishing and consuming with package
// ordering/rabbitmq, beside the plain client amqp091-go on the same broker.
//
//	go test -run '^$' -bench 'Publish$' -benchtime 30000x ./rabbit
//	go test -run '^$' -bench Consume -benchtime 30000x ./rabbit
//	go test -run '^$' -bench Publishers -benchtime 30000x ./rabbit
//
// Messages have 100 bytes and a number, the queues are quorum queues, and the broker shares
// the processors.
package rabbit
