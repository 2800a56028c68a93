package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/exampletest"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/internal/rabbittest"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// The second process takes the clients over when the first one ends.
func TestTheOtherProcessGoesOn(t *testing.T) {
	node, database := rabbittest.Start(t), pgtest.Start(t, "fsync=off").Database(t)
	start := func() *exampletest.Program { return exampletest.Start(t, "-amqp", node.URL(), "-db", database) }
	count := func(p *exampletest.Program, visits int) {
		p.Until(func(out string) bool { return strings.Count(out, "visit ") >= visits })
	}
	first := start()
	count(first, 100)
	second := start()
	exampletest.Until(t, func() bool { // it stands by, and has sent its duplicates
		for i := range partitions.Count {
			if n, err := node.Consumers(partitions.QueueName(i)); err != nil || n != 2 {
				return false
			}
		}
		return true
	})
	first.Interrupt()
	before := first.Wait()

	publisher, err := rabbitmq.NewPublisher(rabbitmq.PublisherConfig{
		Endpoint: rabbitmq.Endpoint{URL: node.URL(), Topology: partitions.Topology()},
		Route:    partitions.Route,
	})
	require.NoError(t, err)
	defer publisher.Close()
	for n := range uint64(100) {
		require.NoError(t, publisher.Publish(t.Context(), &ordering.Event{Positions: []ordering.Position{{
			Stream: lockkeys.Must("client", fmt.Sprint(n%10)), Number: 11 + n/10,
		}}}))
	}
	count(second, 100)
	second.Interrupt()
	after := second.Wait()

	visits := map[string]string{} // of each client
	for _, visit := range regexp.MustCompile(`visit (client/\d)=(\d+)`).FindAllStringSubmatch(before+after, -1) {
		visits[visit[1]] += visit[2] + " "
	}
	require.Len(t, visits, 10)
	for client, numbers := range visits {
		require.Equal(t, "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 ", numbers, client)
	}
}
