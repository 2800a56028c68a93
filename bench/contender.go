package bench

import (
	"context"
	"sync"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// contender is one way to hand messages to workers.
type contender struct {
	name string
	// start starts workers. Submit hands over a message for one of them to handle, and
	// waits while about bound messages are queued; it is called by one goroutine. Stop
	// waits for all messages and ends the workers.
	start func(workers int, handle func(*message)) (submit func(*message), stop func())
}

// bound is how many messages every contender may queue.
const bound = 1024

// contenders are all of them, the floor first. What they promise is in README.md.
var contenders = []contender{
	{"pool", startPool},
	lookAhead,
	{"interlock-head-only", startInterlock(dispatcher.HeadOnly())},
	{"sharded", startSharded},
	{"keyed-mutex", startKeyedMutex},
	{"keyed-queues", startKeyedQueues},
	{"workqueue-by-key", startWorkqueue},
	{"ants", startAnts},
	{"pond-go", startPondGo},
	{"pond-submit", startPondSubmit},
}

var lookAhead = contender{"interlock", startInterlock(dispatcher.Policy{})}

// startPool is the floor: workers that read one channel. It does not look at keys.
func startPool(workers int, handle func(*message)) (submit func(*message), stop func()) {
	queue := make(chan *message, bound)
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for m := range queue {
				handle(m)
			}
		})
	}
	return func(m *message) { queue <- m }, func() { close(queue); running.Wait() }
}

// startInterlock returns the start of this library. Its bound counts running messages
// too.
func startInterlock(policy dispatcher.Policy) func(int, func(*message)) (func(*message), func()) {
	return func(workers int, handle func(*message)) (submit func(*message), stop func()) {
		d, err := dispatcher.New(dispatcher.Config[*message]{
			Keys: func(m *message, claim *lockkeys.Claim) error {
				claim.Exclusive(m.keys...)
				return nil
			},
			Handler: func(_ context.Context, m *message) error {
				handle(m)
				return nil
			},
			Workers:    workers,
			Policy:     policy,
			MaxPending: bound,
		})
		must(err)
		return func(m *message) { must(d.Submit(context.Background(), m)) },
			func() { must(d.Drain(context.Background())); must(d.Close()) }
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
