// Convoy is the sequential convoy on RabbitMQ and PostgreSQL: a ledger message
// with interleaved transactions of many orders is fanned out into partitions,
// and each order is applied first in, first out, by processes that come and go.
// README.md says how it works, and how to scale a service out like that.
//
// A process is a conductor, which starts all others and looks at what came of it
// (internal/conductor); a ledger processor (processor.go); or a worker (worker.go,
// owner.go, apply.go). They share a broker and a database (internal/site), and ledger
// messages (internal/ledger).
package main
