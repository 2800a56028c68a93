// Package site is what all processes of a convoy share: a broker with its queues, and a
// database.
package site

import (
	"log/slog"

	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// Site says where that is.
type Site struct {
	DB     string // URL of the PostgreSQL database
	AMQP   string // URL of the broker
	Prefix string // of the names of the queues
	Queues int    // partitions
	Logger *slog.Logger
}

// Partitions are the queues that the transactions are fanned out into.
func (s Site) Partitions() rabbitmq.Partitions {
	return rabbitmq.Partitions{Prefix: s.Prefix, Count: s.Queues}
}

// LedgerQueue is where ledger messages wait.
func (s Site) LedgerQueue() string { return s.Prefix + ".ledger" }

// DeadQueue is where messages end that can never run.
func (s Site) DeadQueue() string { return s.Prefix + ".dead" }

// QueueNames are the names of all queues.
func (s Site) QueueNames() []string {
	names := []string{s.LedgerQueue(), s.DeadQueue()}
	for partition := range s.Queues {
		names = append(names, s.Partitions().QueueName(partition))
	}
	return names
}

// Endpoint is the broker with all queues. Each process declares them all, so it
// does not matter who is first.
func (s Site) Endpoint() rabbitmq.Endpoint {
	others := rabbitmq.Topology{Queues: []rabbitmq.Queue{
		{Name: s.LedgerQueue(), SingleActive: true},
		{Name: s.DeadQueue()},
	}}
	return rabbitmq.Endpoint{URL: s.AMQP, Topology: s.Partitions().Topology().And(others), Logger: s.Logger}
}
