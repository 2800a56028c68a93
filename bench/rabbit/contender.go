package rabbit

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/bench/internal/stat"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// Contenders.
const (
	Bare            = "amqp091-go"
	BareMany        = "amqp091-go, many in one step" // of acknowledging
	BareWide        = "amqp091-go, many in one step, wide window"
	BareSQLite      = "amqp091-go, many in one step and SQLite transaction"
	Interlock       = "interlock"
	InterlockSQLite = "interlock, effects on SQLite"
)

// Row is one contender's result.
type Row struct {
	Contender string
	rates     []float64 // messages per second, by round
}

// PerSecond returns the messages per second in the median round.
func (r Row) PerSecond() float64 { return stat.Median(r.rates) }

// Times returns how many times as fast as other it was in the same round; in
// the median round.
func (r Row) Times(other Row) float64 { return stat.Ratio(r.rates, other.rates) }

// Rows are the results of one comparison.
type Rows []Row

// Of returns a contender's result.
func (rows Rows) Of(contender string) Row {
	for _, r := range rows {
		if r.Contender == contender {
			return r
		}
	}
	panic("rabbit: no result of " + contender)
}

// contender handles n messages; the time from the start of the clock to its stop
// counts.
type contender struct {
	name string
	run  func(ctx context.Context, b *bench, n int, c *clock) error
}

// clock measures a time. It is stopped in the end, if it was not before.
type clock struct {
	began time.Time
	took  time.Duration
}

func (c *clock) start() { c.began = time.Now() }

func (c *clock) stop() {
	if c.took == 0 {
		c.took = time.Since(c.began)
	}
}

// race lets contenders run in turns, in another order each round. The first
// round warms up and is not counted.
func race(ctx context.Context, b *bench, rounds, n int, contenders []contender) (Rows, error) {
	rows := make(Rows, len(contenders))
	for round := range rounds + 1 {
		for i := range contenders {
			at := (i + round) % len(contenders)
			c := contenders[at]
			rate, err := c.rate(ctx, b, n)
			if err != nil {
				return nil, err
			}
			rows[at].Contender = c.name
			if round > 0 {
				rows[at].rates = append(rows[at].rates, rate)
			}
		}
	}
	return rows, nil
}

// once lets contenders run once, one after the other.
func once(ctx context.Context, b *bench, n int, contenders []contender) (rows Rows, err error) {
	for _, c := range contenders {
		rate, err := c.rate(ctx, b, n)
		if err != nil {
			return nil, err
		}
		rows = append(rows, Row{c.name, []float64{rate}})
	}
	return rows, nil
}

// rate returns the messages per second of one run.
func (c contender) rate(ctx context.Context, b *bench, n int) (float64, error) {
	var t clock
	if err := c.run(ctx, b, n, &t); err != nil {
		return 0, fmt.Errorf("%s: %w", c.name, err)
	}
	t.stop()
	return float64(n) / t.took.Seconds(), nil
}

// bench is a broker and how many queues were made in it.
type bench struct {
	url    string
	queues int
}

// queue makes a quorum queue that is empty, and what deletes it.
func (b *bench) queue() (name string, remove func(), err error) {
	b.queues++
	name = "bench-" + strconv.Itoa(b.queues)
	conn, err := amqp.Dial(b.url)
	if err != nil {
		return "", nil, err
	}
	ch, err := conn.Channel()
	if err == nil {
		err = rabbitmq.Topology{Queues: []rabbitmq.Queue{{Name: name}}}.Declare(ch)
	}
	if err != nil {
		_ = conn.Close()
		return "", nil, err
	}
	return name, func() {
		_, _ = ch.QueueDelete(name, false, false, false)
		_ = conn.Close()
	}, nil
}

func (b *bench) endpoint() rabbitmq.Endpoint {
	return rabbitmq.Endpoint{URL: b.url, Logger: slog.New(slog.DiscardHandler)}
}

// events are n events of 100 bytes, of a thousand streams in turn.
func events(n int) []*ordering.Event { return eventsFrom(0, n) }

// eventsFrom are events first to n-1 of these.
func eventsFrom(first, n int) []*ordering.Event {
	const streams = 1000
	list := make([]*ordering.Event, n-first)
	for at := range list {
		i := first + at
		list[at] = &ordering.Event{
			ID:        "message-" + strconv.Itoa(i),
			Positions: []ordering.Position{{Stream: lockkeys.Must("account", strconv.Itoa(i%streams)), Number: uint64(i/streams + 1)}},
			Payload:   make([]byte, 100),
		}
	}
	return list
}

func toQueue(queue string) func(*ordering.Event) (exchange, key string, err error) {
	return func(*ordering.Event) (string, string, error) { return "", queue, nil }
}
