// Package experiment kills a broker again and again while three ways of delivery send events
// through it, each from a process of its own to another one, and measures what becomes of the
// events.
package experiment

import "time"

// Config says what is tried.
type Config struct {
	Runs, Events     int           // with outages, and events of each
	Keys, Workers    int           // whose events stay in order; of a consumer
	Every, Slow      time.Duration // from event to event, and while a broker recovers
	Work, Spread     time.Duration // of processing an event: mean and standard deviation
	KillMin, KillMax int           // events from kill to kill
	Rounds, Round    int           // without outages, and events of each
	Queue            string        // the type of the queues
	Plot, Dir        string        // file for a picture; folder for databases and logs, "" for a temporary one
	Seed             uint64
	Verbose          bool // tell of each kill
}
