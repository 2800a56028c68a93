package bench

import (
	"context"
	"sync"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// gated is a dispatcher at which messages can be made to pile up: all of them
// have keys below one that a first message holds until it is told to end.
type gated struct {
	d    *dispatcher.Dispatcher[gatedMsg]
	done sync.WaitGroup
}

// gatedMsg is a message; the one that holds the gate has channels.
type gatedMsg struct {
	key   lockkeys.Key
	begun chan struct{}
	end   chan struct{}
}

// gate contains every key of the patterns.
var gate = lockkeys.Must("client")

// newGated has room for pending messages besides the one that holds the gate.
func newGated(policy dispatcher.Policy, pending int) *gated {
	g := new(gated)
	d, err := dispatcher.New(dispatcher.Config[gatedMsg]{
		Keys: func(m gatedMsg, claim *lockkeys.Claim) error {
			claim.Exclusive(m.key)
			return nil
		},
		Handler: func(_ context.Context, m gatedMsg) error {
			if m.end != nil {
				close(m.begun)
				<-m.end
			}
			g.done.Done()
			return nil
		},
		Policy:     policy,
		MaxPending: pending + 1,
	})
	if err != nil {
		panic(err)
	}
	g.d = d
	return g
}

// pass submits messages for keys behind the gate, opens it, and returns how
// long all of them took, their submission included.
func (g *gated) pass(keys []lockkeys.Key) time.Duration {
	holder := gatedMsg{gate, make(chan struct{}), make(chan struct{})}
	g.done.Add(len(keys) + 1)
	g.submit(holder)
	<-holder.begun
	start := time.Now()
	for _, k := range keys {
		g.submit(gatedMsg{key: k})
	}
	close(holder.end)
	g.done.Wait()
	elapsed := time.Since(start)
	g.drain()
	return elapsed
}

func (g *gated) submit(m gatedMsg) {
	if err := g.d.Submit(context.Background(), m); err != nil {
		panic(err)
	}
}

// drain waits until the messages whose handlers have ended have gone too.
func (g *gated) drain() {
	if err := g.d.Drain(context.Background()); err != nil {
		panic(err)
	}
}

func (g *gated) close() {
	if err := g.d.Close(); err != nil {
		panic(err)
	}
}

// perMessage passes keys as often as it takes for total messages and returns
// the time for one in nanoseconds.
func (g *gated) perMessage(keys []lockkeys.Key, total int) float64 {
	var sum time.Duration
	n := 0
	for n < total {
		sum += g.pass(keys)
		n += len(keys)
	}
	return float64(sum) / float64(n)
}
