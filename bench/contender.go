package bench

import "github.com/interlock-go/interlock/dispatcher"

// Contender is one way to hand messages to workers.
type Contender struct {
	Name     string
	Promises string // what a user gets
	Lacks    string // and what not, of: mutual exclusion and order for each key, several keys, hierarchy
	start    func(s Setup, h Handler) runner
}

// Setup is what all contenders are started with.
type Setup struct {
	Workers int
	Bound   int // of messages handed over and not begun
	Window  int // of look-ahead; 0 for Interlock's default. The others have none.
}

// runner is a contender at work.
type runner interface {
	// Submit hands a message over, waiting while the bound is reached. It is
	// called by one goroutine.
	Submit(m *Msg)
	// Close waits for all messages and ends the workers.
	Close()
}

// QueueBound is the bound that every contender has, if nothing else is said.
const QueueBound = 1024

// The contenders. Floor does the least that any of them must.
var (
	Floor = Contender{
		Name:     "pool",
		Promises: "every message is handled once",
		Lacks:    "exclusion, order, several keys, hierarchy",
		start:    startPool,
	}
	LookAhead = Contender{
		Name:     "interlock",
		Promises: "exclusion and arrival order for all conflicting messages, several keys, hierarchy",
		Lacks:    "—",
		start: func(s Setup, h Handler) runner {
			policy := dispatcher.Policy{}
			if s.Window > 0 {
				policy = dispatcher.LookAhead(s.Window)
			}
			return startInterlock(s, policy, h)
		},
	}
	HeadOnly = Contender{
		Name:     "interlock-head-only",
		Promises: "the same",
		Lacks:    "— (a blocked head holds up what is behind it)",
		start: func(s Setup, h Handler) runner {
			return startInterlock(s, dispatcher.HeadOnly(), h)
		},
	}
	Sharded = Contender{
		Name:     "sharded",
		Promises: "exclusion and order for each message's first key",
		Lacks:    "several keys, hierarchy; keys of one shard wait for each other",
		start:    startSharded,
	}
	KeyedMutex = Contender{
		Name:     "keyed-mutex",
		Promises: "exclusion for each key, several keys without deadlock",
		Lacks:    "order, hierarchy; a waiting message occupies a worker",
		start:    startKeyedMutex,
	}
	KeyedQueues = Contender{
		Name:     "keyed-queues",
		Promises: "exclusion and arrival order for each key, several keys",
		Lacks:    "hierarchy; shared keys",
		start:    startKeyedQueues,
	}
	Workqueue = Contender{
		Name:     "workqueue",
		Promises: "every message is handled once (an item is a message)",
		Lacks:    "exclusion, order, several keys, hierarchy",
		start:    startWorkqueue,
	}
	WorkqueueByKey = Contender{
		Name:     "workqueue-by-key",
		Promises: "exclusion and order for each message's first key (an item is a key, with a mailbox)",
		Lacks:    "several keys, hierarchy",
		start:    startWorkqueueByKey,
	}
	Ants = Contender{
		Name:     "ants",
		Promises: "every message is handled once",
		Lacks:    "exclusion, order, several keys, hierarchy; a queue",
		start:    startAnts,
	}
	PondGo = Contender{
		Name:     "pond-go",
		Promises: "every message is handled once",
		Lacks:    "exclusion, order, several keys, hierarchy; no result",
		start:    startPondGo,
	}
	PondSubmit = Contender{
		Name:     "pond-submit",
		Promises: "every message is handled once, with a future",
		Lacks:    "exclusion, order, several keys, hierarchy",
		start:    startPondSubmit,
	}
)

// Contenders are all of them, the floor first.
var Contenders = []Contender{
	Floor, LookAhead, HeadOnly, Sharded, KeyedMutex, KeyedQueues,
	Workqueue, WorkqueueByKey, Ants, PondGo, PondSubmit,
}
