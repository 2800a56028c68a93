package experiment

import (
	"context"
	"sync"
	"time"

	"github.com/interlock-go/interlock/examples/failover/internal/measure"
	"github.com/interlock-go/interlock/internal/rabbittest"
)

// restartDelay is how long a broker stays dead before it is started again: the
// default of systemd.
const restartDelay = 100 * time.Millisecond

// broker is a node that is killed now and then.
type broker struct {
	node *rabbittest.Node

	mu struct {
		sync.Mutex
		outages []measure.Outage // the last one has no Back while the node is down
		err     error            // of killing or restarting
		back    chan struct{}    // closed while the node is up
	}
}

func newBroker(node *rabbittest.Node) *broker {
	b := &broker{node: node}
	b.mu.back = make(chan struct{})
	close(b.mu.back)
	return b
}

// kill kills the node, which must be up, and starts it again in the background.
func (b *broker) kill() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.outages = append(b.mu.outages, measure.Outage{Died: time.Now()})
	b.mu.back = make(chan struct{})
	go func() {
		err := b.node.Kill()
		if err == nil {
			time.Sleep(restartDelay)
			err = b.node.Restart()
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.mu.outages[len(b.mu.outages)-1].Back = time.Now()
		b.mu.err = err
		close(b.mu.back)
	}()
}

// back returns what is closed while the node is up.
func (b *broker) back() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.back
}

// awaitUp waits until the node is up.
func (b *broker) awaitUp(ctx context.Context) error {
	select {
	case <-b.back():
		return b.failed()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *broker) failed() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.err
}

// last returns the last outage. It has no Back while the node is down; without
// any outage it has nothing.
func (b *broker) last() (o measure.Outage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.mu.outages); n > 0 {
		o = b.mu.outages[n-1]
	}
	return o
}

// takeOutages returns the outages since it was called last. The node is up.
func (b *broker) takeOutages() []measure.Outage {
	b.mu.Lock()
	defer b.mu.Unlock()
	outages := b.mu.outages
	b.mu.outages = nil
	return outages
}
