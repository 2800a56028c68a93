package view

import "time"

// Commit tells of a transaction that a store has committed; see sqlstore's Store.Measure.
type Commit struct {
	Events int           // those that it made durable, commands included; it may be 0
	Took   time.Duration // the COMMIT, with what was sent or written with it
}

// Step tells of one call of a function of a saga's step; see saga's Config.Measure.
type Step struct {
	Saga, Name string        // the names of the definition and of the step
	Undo       bool          // it undoes the step
	Took       time.Duration // the function: no wait for keys, a reply or another attempt
	Err        error         // nil as well if the step waits for a reply
}
