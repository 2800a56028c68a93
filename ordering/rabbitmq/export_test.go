package rabbitmq

import amqp "github.com/rabbitmq/amqp091-go"

// Answered is for the tests of this package.
var Answered = answered

// ErrNoAnswer likewise.
var ErrNoAnswer = errNoAnswer

// Race dials several brokers.
var Race = race

// LeftOut is what an event does not hold of a message.
func LeftOut(m amqp.Delivery) []string {
	_, left, _ := eventOf(m)
	return left
}
