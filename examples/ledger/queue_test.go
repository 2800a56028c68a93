package main

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/ledger/internal/queue"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// posting adds 1 to an account and expects what it has then.
func posting(balance int) string {
	return strings.TrimSpace(deposits(fmt.Sprint(balance)))
}

// Messages from a queue are applied by their numbers, each once, and what is
// applied is gone from the queue.
func TestQueue(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	db := filepath.Join(t.TempDir(), "ledger.db")
	for _, n := range []int{2, 1, 3, 3, 1, 5, 4} {
		d.send(t, fmt.Sprintf("A=%d", n), posting(n))
	}
	w := begin(t, d.args("-db", db)...)
	requireJournal(t, db, 5)
	d.requireCounts(t, 0, 0)
	code, summary := w.end(t)
	assert.Equal(t, exitGood, code, summary)
	assert.Contains(t, summary, "5: 5 applied")
	assert.NotContains(t, summary, "✗")

	d.send(t, "A=5", posting(5))
	d.send(t, "A=6", posting(6))
	w = begin(t, d.args("-db", db)...)
	requireJournal(t, db, 6)
	d.requireCounts(t, 0, 0)
	code, summary = w.end(t)
	assert.Equal(t, exitGood, code, summary)
	assert.Contains(t, summary, "1: 1 applied")
}

// What is no message, or contradicts itself, is put aside with the reason. What
// is behind it on its streams waits for the message that belongs there.
func TestQueueDeadLetters(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	db := filepath.Join(t.TempDir(), "ledger.db")
	for _, poison := range []struct{ sequence, body, reason string }{
		{"", posting(1), "X-Sequence-ID"},
		{"soon", posting(1), "X-Sequence-ID"},
		{"A=0", posting(1), "number is not from 1"},
		{"A=2", "nonsense", "not JSON"},
		{"A=2", `{"op":"steal"}`, `op "steal" is not known`},
		{"A=2", strings.Replace(posting(2), `{"op"`, `{"sequence":"A=3","op"`, 1), `"sequence" is not what the header X-Sequence-ID says`},
		{"input/1=1", posting(1), `below "input"`},
	} {
		d.send(t, poison.sequence, poison.body)
		w := begin(t, d.args("-db", db)...)
		d.requireCounts(t, 0, 1)
		code, summary := w.end(t)
		assert.Equal(t, exitGood, code, summary)
		letter, ok, err := d.Get(queue.DeadLetters(d.name), true)
		require.NoError(t, err)
		require.True(t, ok)
		assert.Equal(t, poison.body, string(letter.Body))
		assert.Contains(t, letter.Headers[rabbitmq.ReasonHeader], poison.reason)
		assert.Equal(t, d.name, letter.Headers[rabbitmq.QueueHeader])
		assert.Contains(t, summary, "a message is put aside")
		assert.Contains(t, summary, "in="+queue.DeadLetters(d.name))
	}

	// The same numbers in another order are the same numbers.
	d.send(t, "A=1, C=1", strings.Replace(posting(1), `{"op"`, `{"sequence":"C=1, A=1","op"`, 1))
	d.send(t, "A=2", "nonsense")
	d.send(t, "A=3", posting(3))
	w := begin(t, d.args("-db", db, "-gap", "10ms")...)
	requireJournal(t, db, 1)
	d.requireCounts(t, 0, 1)
	w.requireSays(t, `streams parked.*A=2`) // for whoever looks why nothing moves
	d.send(t, "A=2", posting(2))
	requireJournal(t, db, 3)
	code, summary := w.end(t)
	assert.Equal(t, exitGood, code, summary)
	assert.Contains(t, summary, "3: 3 applied")
}

// A message may come by either way, or by both.
func TestQueueAndHTTP(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	w := begin(t, d.args("-db", "memory", "-listen", "127.0.0.1:0")...)
	url := address.FindString(w.requireSays(t, "serving at .*"))
	client := &http.Client{}
	defer client.CloseIdleConnections()
	numbered := func(n int) string {
		return strings.Replace(posting(n), `{"op"`, fmt.Sprintf(`{"sequence":"A=%d","op"`, n), 1)
	}
	for n := 1; n < 20; n += 2 {
		d.send(t, fmt.Sprintf("A=%d", n), posting(n))
		d.requireCounts(t, 0, 0)
		code, answer := post(t, client, url, numbered(n))
		assert.Equal(t, http.StatusOK, code, answer)
		assert.JSONEq(t, `{"status":"done before"}`, answer)
		code, answer = post(t, client, url, numbered(n+1))
		assert.Equal(t, http.StatusOK, code, answer)
		assert.JSONEq(t, `{"status":"applied"}`, answer)
		d.send(t, fmt.Sprintf("A=%d", n+1), numbered(n+1))
	}
	d.requireCounts(t, 0, 0)
	client.CloseIdleConnections()
	code, summary := w.end(t)
	assert.Equal(t, exitGood, code, summary)
	assert.Contains(t, summary, "20 applied")
	assert.NotContains(t, summary, "✗")
}

// Both at the same time are one message, whatever ID it has for the broker.
func TestQueueAndHTTPAtOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	w := begin(t, d.args("-db", filepath.Join(t.TempDir(), "ledger.db"), "-listen", "127.0.0.1:0", "-gap", "10ms")...)
	url := address.FindString(w.requireSays(t, "serving at .*"))
	client := &http.Client{}
	defer client.CloseIdleConnections()
	numbered := func(n int) string {
		return strings.Replace(posting(n), `{"op"`, fmt.Sprintf(`{"sequence":"A=%d","op"`, n), 1)
	}
	const last = 20
	var ways sync.WaitGroup
	ways.Go(func() {
		for n := range last {
			d.sendAs(t, fmt.Sprint("message ", n), fmt.Sprintf("A=%d", last-n), posting(last-n))
		}
	})
	for n := range last {
		ways.Go(func() {
			code, answer := post(t, client, url, numbered(last-n))
			assert.Contains(t, []int{http.StatusOK, http.StatusAccepted}, code, answer)
		})
	}
	ways.Wait()
	w.requireSays(t, "at work")
	d.requireCounts(t, 0, 0)
	requireSoon(t, func() error {
		if _, answer := post(t, client, url, numbered(last)); !strings.Contains(answer, "done before") {
			return errors.New(answer)
		}
		return nil
	})
	client.CloseIdleConnections()
	code, summary := w.end(t)
	assert.Equal(t, exitGood, code, summary)
	assert.Contains(t, summary, "20 applied")
	assert.NotContains(t, summary, "✗")
}

// A program that stands by leaves the database alone until it is given the
// queue, and its turn comes when the other one ends or loses its connection.
func TestStandby(t *testing.T) {
	t.Parallel()
	for name, db := range map[string]string{
		"sqlite":   filepath.Join(t.TempDir(), "ledger.db"),
		"postgres": server(t).Database(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			link := d.node.Link(t)
			n := 0
			send := func() {
				t.Helper()
				n++
				d.send(t, fmt.Sprintf("A=%d", n), posting(n))
				requireJournal(t, db, n)
			}
			// An acknowledgement that was on its way when the link was cut lets its
			// message come again.
			applied := func(n int) string { return fmt.Sprintf(`[0-9]: ([0-9] done before, )?%d applied`, n) }
			first := begin(t, "-amqp", link.URL(), "-queue", d.name, "-db", db)
			send()
			second := begin(t, d.args("-db", db)...)
			d.requireConsumers(t, 2)
			send()

			link.Cut()
			send() // by the second one
			link.Mend()
			d.requireConsumers(t, 2)
			send()
			code, summary := second.end(t)
			assert.Equal(t, exitGood, code, summary)
			assert.Regexp(t, applied(2), summary)

			send() // by the first one, which knew the stream up to its second message
			first.requireSays(t, "the term is over")
			code, summary = first.end(t)
			assert.Equal(t, exitGood, code, summary)
			assert.Regexp(t, applied(2), summary)
			assert.Regexp(t, applied(1), summary)
			d.requireCounts(t, 0, 0)
		})
	}
}

// A queue that is there and is another one is an error.
func TestQueueOfAnotherKind(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	_, err := d.QueueDeclare(d.name+"-classic", true, false, false, false, amqp.Table{amqp.QueueTypeArg: "classic"})
	require.NoError(t, err)
	r := ledger(t, "", "-amqp", d.node.URL(), "-queue", d.name+"-classic", "-db", "memory")
	assert.Equal(t, exitBad, r.code)
	assert.Contains(t, r.stdout, "cannot be declared")

	r = ledger(t, "", "-produce", "-messages", "30", "-amqp", d.node.URL(), "-queue", d.name+"-classic", "-db", filepath.Join(t.TempDir(), "outbox.db"))
	assert.Equal(t, exitBad, r.code)
	assert.Contains(t, r.stderr, "cannot be declared")
	assert.Contains(t, r.stderr, "name another queue with -queue")
}
