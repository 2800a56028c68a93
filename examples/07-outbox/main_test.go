package main

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/exampletest"
	"github.com/interlock-go/interlock/internal/rabbittest"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// The program is killed before there is a queue; started again, it sends the payments of
// both, in the order of each account.
func TestEveryCommittedPaymentIsSent(t *testing.T) {
	node := rabbittest.Start(t)
	path := filepath.Join(t.TempDir(), "bank.db")
	start := func() *exampletest.Program { return exampletest.Start(t, "-amqp", node.URL(), "-db", path) }
	program := start()
	program.Until(func(out string) bool { return strings.Contains(out, "10 payments") })
	program.Kill()

	channel, err := node.Dial(t).Channel()
	require.NoError(t, err)
	_, err = channel.QueueDeclare("payments", true, false, false, false, amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum})
	require.NoError(t, err)
	program = start()
	last, total := map[string]uint64{}, 0
	for n := 0; n < 20; {
		m, ok, err := channel.Get("payments", true)
		require.NoError(t, err)
		if !ok {
			continue
		}
		n++
		e, err := rabbitmq.EventOf(m)
		require.NoError(t, err)
		require.Len(t, e.Positions, 1)
		account := e.Positions[0].Stream.String()
		last[account]++
		require.Equal(t, last[account], e.Positions[0].Number, "of %s, in %s", account, ordering.FormatSequenceID(e.Positions))
		amount, err := strconv.Atoi(string(e.Payload))
		require.NoError(t, err)
		total += amount
	}
	require.Equal(t, map[string]uint64{"account/7": 10, "account/8": 10}, last)
	require.Equal(t, 2*450, total)
	program.Interrupt()
	require.Contains(t, program.Wait(), "confirmed: 20")
}
