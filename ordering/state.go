package ordering

import "github.com/interlock-go/interlock/lockkeys"

// Fences are fencing tokens, by their streams.
type Fences map[lockkeys.Key]int64

// StreamState is the state of a stream in a store. Its numbers are places, see
// [Position.Place].
type StreamState struct {
	Last   uint64 // every number up to it is done
	Done   Spans  // done numbers above Last+1
	Fence  int64  // the caller's fencing token
	Ended  uint64 // the last number of the latest epoch of which the event with End is done; else 0
	HeldAt uint64 // events from this number on must be held; 0 for none
	Parked string // the ID of the parking that closes the stream; "" if none does

	// HeldAt is the smaller of the number at which the parking closes the
	// stream and that of its first held event: so after a restart nothing
	// overtakes an event that was held before the parking began.
}

// NumberState is the state of a number in a store.
type NumberState struct {
	Done bool
	// Last is the place up to which all numbers of the stream are done.
	Last uint64
	// Fence is the fencing token of the stream's holder, or an invalid one if
	// there was no holder yet.
	Fence int64
	// Job is the job state stored under the number: for an event, that is the
	// first of the numbers that it made done, in the order of their streams'
	// text, or the first of all its numbers if it has failed; for a skipped
	// range, each number of it. If the number is done, it is not the job state
	// of a failed event.
	Job *JobState
	// Pruned reports whether Job may be nil because it was pruned: a job state
	// of this number or a larger one on the stream was. If a number is done,
	// has no job state, and is not Pruned, the event that made it done has its
	// job state under another number.
	Pruned bool
}
