package experiment

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/interlock-go/interlock/examples/failover/internal/feed"
	"github.com/interlock-go/interlock/examples/failover/internal/measure"
)

// kind is one of the ways that are compared.
type kind struct {
	name               string
	producer, consumer feed.Role
	confirms           bool
}

// lossless reports whether the way promises that every event is applied in the end.
func (k kind) lossless() bool { return k.producer == feed.NumberedProducer }

var kinds = []kind{
	{"plain", feed.PlainProducer, feed.PlainConsumer, false},
	{"confirms", feed.PlainProducer, feed.PlainConsumer, true},
	{"interlock", feed.NumberedProducer, feed.NumberedConsumer, false},
}

// way is a producer, a queue and a consumer.
type way struct {
	kind
	producer, consumer *child
	numbers            map[int]uint64 // the last one of each key
	sent               []feed.Order

	mu struct { // guards what the consumer has told
		sync.Mutex
		applied  []feed.Applied
		seen     map[int]bool // by N
		byBroker time.Time    // when an event of the broker's was applied last
	}
}

// startWay starts the processes of a way, the consumer first.
func startWay(ctx context.Context, o Config, k kind, broker, dir string) (_ *way, err error) {
	w := &way{kind: k, numbers: map[int]uint64{}}
	w.mu.seen = map[int]bool{}
	toConsumer, err := listen()
	if err != nil {
		return nil, err
	}
	defer toConsumer.Close()
	toProducer, err := listen()
	if err != nil {
		return nil, err
	}
	defer toProducer.Close()
	cfg := feed.Config{Broker: broker, Queue: "orders." + k.name, Type: o.Queue,
		Confirms: k.confirms, Dir: filepath.Join(dir, k.name), Workers: o.Workers, Secret: make([]byte, 32)}
	_, _ = rand.Read(cfg.Secret) // never fails
	if err := os.Mkdir(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("%w: if that is of an earlier run, choose another -dir", err)
	}
	defer func() {
		if err != nil {
			w.kill()
		}
	}()
	cfg.Role, cfg.Peer = k.consumer, "http://"+toProducer.Addr().String()
	if w.consumer, err = startChild(cfg, toConsumer, w.noteApplied); err != nil {
		return nil, err
	}
	cfg.Role, cfg.Peer = k.producer, "http://"+toConsumer.Addr().String()
	if w.producer, err = startChild(cfg, toProducer, nil); err != nil {
		return nil, err
	}
	return w, errors.Join(w.consumer.awaitReady(ctx), w.producer.awaitReady(ctx))
}

func listen() (*net.TCPListener, error) {
	return net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
}

func (w *way) noteApplied(a feed.Applied) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.applied = append(w.mu.applied, a)
	w.mu.seen[a.N] = true
	if a.Channel == feed.Broker {
		w.mu.byBroker = a.At
	}
}

// usedBroker reports whether an event came by the broker after a time.
func (w *way) usedBroker(after time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.byBroker.After(after)
}

// send gives an order to the producer.
func (w *way) send(o feed.Order) error {
	w.numbers[o.Key]++
	o.Number = w.numbers[o.Key]
	w.sent = append(w.sent, o)
	return w.producer.send(o)
}

// mark is how far a way has come.
type mark struct {
	sent      int
	applied   int // events, those applied again too
	different int // events
}

func (w *way) mark() mark {
	w.mu.Lock()
	defer w.mu.Unlock()
	return mark{len(w.sent), len(w.mu.applied), len(w.mu.seen)}
}

// since returns what was sent since a mark, and what was applied of that, in the
// order of the commits.
func (w *way) since(m mark) measure.Run {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := measure.Run{Sent: w.sent[m.sent:]}
	for _, a := range w.mu.applied[m.applied:] {
		if a.N >= r.Sent[0].N { // what came too late for the run before is none of this one
			r.Applied = append(r.Applied, a)
		}
	}
	return r
}

// failed returns why one of the processes has ended, if so.
func (w *way) failed() error { return errors.Join(w.producer.failed(), w.consumer.failed()) }

// end lets the processes finish, the producer first.
func (w *way) end() error {
	if err := errors.Join(w.producer.end(), w.consumer.end()); err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	return nil
}

// kill ends the processes at once.
func (w *way) kill() {
	for _, c := range []*child{w.producer, w.consumer} {
		if c != nil {
			c.kill()
		}
	}
}

// startWays starts all ways at once, each with a folder of its own in dir.
func startWays(ctx context.Context, o Config, broker, dir string) (ways []*way, err error) {
	ways = make([]*way, len(kinds))
	errs := make([]error, len(kinds))
	var starting sync.WaitGroup
	for i, k := range kinds {
		starting.Go(func() { ways[i], errs[i] = startWay(ctx, o, k, broker, dir) })
	}
	starting.Wait()
	if err := errors.Join(errs...); err != nil {
		killAll(ways)
		return nil, err
	}
	return ways, nil
}

func killAll(ways []*way) {
	for _, w := range ways {
		if w != nil {
			w.kill()
		}
	}
}

func endAll(ways []*way) error {
	errs := make([]error, len(ways))
	var ending sync.WaitGroup
	for i, w := range ways {
		ending.Go(func() { errs[i] = w.end() })
	}
	ending.Wait()
	return errors.Join(errs...)
}
