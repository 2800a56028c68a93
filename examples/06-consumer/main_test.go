package main

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/exampletest"
	"github.com/interlock-go/interlock/internal/rabbittest"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// The events come twice and the wrong way round, and the consumer is killed in between.
func TestEachEventIsAppliedOnceAndInOrder(t *testing.T) {
	node := rabbittest.Start(t)
	path := filepath.Join(t.TempDir(), "payments.db")
	start := func() *exampletest.Program {
		p := exampletest.Start(t, "-amqp", node.URL(), "-db", path)
		exampletest.Until(t, func() bool { n, err := node.Consumers("payments"); return err == nil && n == 1 })
		return p
	}
	consumer := start()
	channel, err := node.Dial(t).Channel()
	require.NoError(t, err)
	send := func(m amqp.Publishing) {
		require.NoError(t, channel.PublishWithContext(t.Context(), "", "payments", false, false, m))
	}
	payment := func(n uint64) amqp.Publishing {
		position := ordering.Position{Stream: lockkeys.Must("account", "7"), Number: n}
		return rabbitmq.Message(&ordering.Event{Positions: []ordering.Position{position}, Payload: fmt.Append(nil, 10*n)})
	}
	for _, n := range []uint64{2, 1, 2, 1} {
		send(payment(n))
	}
	consumer.Until(func(out string) bool { return strings.Contains(out, "received account/7=2") })
	consumer.Kill()

	consumer = start()
	for _, n := range []uint64{2, 4, 3} {
		send(payment(n))
	}
	send(amqp.Publishing{Body: []byte("no event")})
	exampletest.Until(t, func() bool { n, err := node.Count("payments.dead"); return err == nil && n == 1 })
	exampletest.Until(t, func() bool { n, err := node.Count("payments"); return err == nil && n == 0 })
	consumer.Interrupt()
	consumer.Wait()
	require.Equal(t, "account/7=1 10, account/7=2 20, account/7=3 30, account/7=4 40", payments(t, path))
}

// payments returns what was applied, in that order.
func payments(t *testing.T, path string) string {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer db.Close()
	rows, err := db.Query(`SELECT event || ' ' || amount FROM payments ORDER BY rowid`)
	require.NoError(t, err)
	defer rows.Close()
	var list []string
	for rows.Next() {
		var payment string
		require.NoError(t, rows.Scan(&payment))
		list = append(list, payment)
	}
	require.NoError(t, rows.Err())
	return strings.Join(list, ", ")
}
