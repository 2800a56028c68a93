package main

import "strings"

// comparison is a benchmark, whose sub-benchmarks are compared.
type comparison struct {
	title     string
	pkg       string
	bench     string
	benchtime string
	plotted   string // the unit that is made a picture of; none if it is empty
	once      bool   // in one round, since it takes long
}

var comparisons = []comparison{
	{title: "The cost of a message", pkg: ".", bench: "Dispatch", benchtime: "300000x", plotted: "×pool"},
	{title: "The quality of schedules", pkg: ".", bench: "Makespan", benchtime: "1x", plotted: "×least"},
	{title: "Messages that wait for each other", pkg: ".", bench: "Waiting", benchtime: "131072x", plotted: "ns/op"},
	{title: "Memory after many keys", pkg: ".", bench: "Memory", benchtime: "5000000x", once: true},
	{title: "Touch in a handler", pkg: ".", bench: "Touch", benchtime: "1000000x", plotted: "ns/op"},
	{title: "The sequencer beside its dispatcher", pkg: "./durable", bench: "Sequencer", benchtime: "300000x", plotted: "ns/op"},
	{title: "Memory after many streams", pkg: "./durable", bench: "Streams", benchtime: "1000000x", once: true},
	{title: "Exactly once on SQLite", pkg: "./durable", bench: "SQLite", benchtime: "5000x", plotted: "msg/s"},
	{title: "Exactly once on PostgreSQL", pkg: "./durable", bench: "PostgreSQL", benchtime: "400x", plotted: "×one-by-one"},
	{title: "Publishing to RabbitMQ", pkg: "./rabbit", bench: "Publish", benchtime: "30000x", plotted: "msg/s"},
	{title: "Many publishers that wait", pkg: "./rabbit", bench: "Publishers", benchtime: "30000x", plotted: "msg/s"},
	{title: "Consuming from RabbitMQ", pkg: "./rabbit", bench: "Consume", benchtime: "30000x", plotted: "msg/s"},
	{title: "Consuming a long backlog", pkg: "./rabbit", bench: "Backlog", benchtime: "300000x", plotted: "msg/s", once: true},
	{title: "Gaps in 10,000 streams at once", pkg: "./recovery", bench: "Gaps", benchtime: "1x", plotted: "s/all"},
	{title: "Parking 10,000 streams and resuming them", pkg: "./recovery", bench: "Late", benchtime: "1x", plotted: "s/parked"},
	{title: "Parking beside what is parked already", pkg: "./recovery", bench: "Park", benchtime: "1000x", plotted: "ns/op"},
	{title: "A chain of events, from an outbox to a fresh database", pkg: "./recovery", bench: "Chain", benchtime: "1x", plotted: "s/all"},
	{title: "Appending to an event log", pkg: "./eventlog", bench: "Append", benchtime: "1000x", plotted: "events/s"},
	{title: "A subscription that is behind", pkg: "./eventlog", bench: "CatchUp", benchtime: "5000x", plotted: "entries/s"},
	{title: "From a commit to the commit of its read model", pkg: "./eventlog", bench: "Window", benchtime: "200x", plotted: "ms-p50"},
	{title: "The state of a stream", pkg: "./eventlog", bench: "Load", benchtime: "20x", plotted: "ns/op"},
	{title: "Bytes of an event", pkg: "./eventlog", bench: "Size", benchtime: "20000x", plotted: "B/event"},
	{title: "Messages while pages of the inspector are open", pkg: "./inspect", bench: "Viewed", benchtime: "2000000x", plotted: "messages/s"},
	{title: "What it costs to measure a dispatcher", pkg: "./telemetry", bench: "Measured", benchtime: "300000x", plotted: "metrics-ns"},
	{title: "What sagas see of each other", pkg: "./isolation", bench: "Isolation", benchtime: "5000x", plotted: "sagas/s", once: true},
	{title: "A shop, made in four ways", pkg: "./orders", bench: "Contenders", benchtime: "300x", plotted: "orders/s"},
	{title: "Calls of its services", pkg: "./orders", bench: "Calls", benchtime: "3000x", plotted: "calls/s", once: true},
	{title: "Questions to tables and to read models", pkg: "./orders", bench: "Reads", benchtime: "500x", plotted: "ns/op", once: true},
}

// name is that of the comparison's picture.
func (c comparison) name() string {
	if c.pkg == "." {
		return "bench-" + c.bench
	}
	return strings.TrimPrefix(c.pkg, "./") + "-" + c.bench
}

func (c comparison) command() []string {
	return []string{"go", "test", "-run", "^$", "-bench", "^Benchmark" + c.bench + "$", "-benchtime", c.benchtime, "-timeout", "1h", c.pkg}
}
