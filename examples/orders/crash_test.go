package main

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/orders/internal/order"
	"github.com/interlock-go/interlock/examples/orders/internal/services"
	"github.com/interlock-go/interlock/examples/orders/internal/shipping"
	"github.com/interlock-go/interlock/examples/orders/internal/shop"
	"github.com/interlock-go/interlock/examples/orders/internal/views"
	"github.com/interlock-go/interlock/examples/orders/internal/wire"
	"github.com/interlock-go/interlock/internal/loopback"
	"github.com/interlock-go/interlock/internal/rabbittest"
)

// program is the shop, in a process of its own.
type program struct {
	command *exec.Cmd
	client
}

func start(t *testing.T, args ...string) *program {
	t.Helper()
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), programEnv+"=1")
	stderr, err := c.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	lines := bufio.NewReader(stderr)
	for {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		if _, url, is := strings.Cut(strings.TrimSpace(line), "listening on "); is {
			go func() { _, _ = io.Copy(io.Discard, lines) }()
			return &program{c, client{t, url, ""}}
		}
	}
}

func (p *program) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, p.command.Process.Kill())
	require.Error(t, p.command.Wait())
}

// The orchestrator is killed again and again with checkouts under way, and goes on with
// them. In the end all fits together.
func TestTheOrchestratorIsKilled(t *testing.T) {
	for _, isolated := range []string{"true", "false"} {
		t.Run("isolated="+isolated, func(t *testing.T) {
			o, err := parse([]string{"-unreliable", "0.1"}, io.Discard)
			require.NoError(t, err)
			o.Dir = t.TempDir()
			s, err := services.Open(t.Context(), o.Options)
			require.NoError(t, err)
			defer func() { assert.NoError(t, s.Close()) }()
			args := []string{"-listen", ":0", "-dir", o.Dir, "-isolated=" + isolated}
			for name, service := range map[string]wire.Service{
				"payment": s.Payment.Methods(), "inventory": s.Inventory.Methods(), "shipping": s.Shipping.Methods(),
			} {
				server := httptest.NewServer(wire.Handler(service, ""))
				defer server.Close()
				args = append(args, "-"+name, server.URL)
			}
			defer http.DefaultClient.CloseIdleConnections()
			const stock, orders, rounds = 60 / share, 40 / share, 3
			require.NoError(t, s.Inventory.Stock(t.Context(), "kettle", stock))
			p := start(t, args...)
			for round := range rounds {
				for n := range orders {
					placement := kettle(1 + int64(n%2))
					placement.Customer = fmt.Sprint("customer-", n%7)
					switch n % 10 {
					case 0:
						placement.Card = "declined"
					case 1:
						placement.Country = "AQ"
					}
					code, answer := p.do("PUT", fmt.Sprintf("/orders/%d-%d", round, n), placement)
					require.Equal(t, 202, code, answer)
				}
				<-time.After(time.Duration(rand.IntN(150)) * time.Millisecond) // when it is killed
				p.kill(t)
				p = start(t, args...)
			}
			completed, cents := 0, int64(0)
			for round := range rounds {
				for n := range orders {
					id := fmt.Sprintf("%d-%d", round, n)
					require.Eventually(t, func() bool {
						_, answer := p.do("GET", "/orders/"+id, nil)
						if strings.Contains(answer, `"status":"`+string(order.Completed)) {
							completed++
							cents += 3990 * (1 + int64(n%2))
							return true
						}
						return strings.Contains(answer, `"status":"`+string(order.Cancelled))
					}, waitAtMost, 5*time.Millisecond, id)
				}
			}
			p.kill(t)
			sum, err := s.Payment.Sum(t.Context())
			require.NoError(t, err)
			assert.Equal(t, cents, sum, "money captured = orders completed")
			captured, err := s.Gateway.Captured(t.Context())
			require.NoError(t, err)
			assert.Equal(t, cents, captured)
			open, err := s.Payment.Open(t.Context())
			require.NoError(t, err)
			assert.Zero(t, open)
			counts, err := s.Inventory.Counts(t.Context())
			require.NoError(t, err)
			assert.Zero(t, counts.Reserved)
			assert.EqualValues(t, stock, counts.Available+counts.Sold)
			dispatched, err := s.Shipping.Count(t.Context(), shipping.Dispatched)
			require.NoError(t, err)
			assert.Equal(t, completed, dispatched)
			assert.NotZero(t, completed)
		})
	}
}

// The payment service is killed again and again while checkouts call it, and is away for
// a while. Those that cannot be paid in time are cancelled; nothing is charged twice, and
// nothing is left over.
func TestThePaymentServiceIsKilled(t *testing.T) {
	port, err := loopback.New()
	require.NoError(t, err)
	defer func() { assert.NoError(t, port.Close()) }()
	node := rabbittest.Start(t)
	for transport, at := range map[string]struct {
		url  string
		args []string
	}{
		services.HTTP: {"http://" + port.Addr(0), nil},
		services.GRPC: {"grpc://" + port.Addr(0), nil},
		services.AMQP: {node.URL(), []string{"-broker", node.URL()}},
	} {
		t.Run(transport, func(t *testing.T) {
			dir := t.TempDir()
			killPayment(t, at.url, dir, append([]string{"-service", "payment", "-listen", port.Addr(0), "-dir", dir, "-transport", transport}, at.args...))
		})
	}
}

// killPayment kills the payment service, which has a URL, its databases in a folder, and
// arguments.
func killPayment(t *testing.T, url, away string, payments []string) {
	p := start(t, payments...)
	o, err := parse([]string{"-payment", url}, io.Discard)
	require.NoError(t, err)
	o.Dir = t.TempDir()
	s, err := services.Open(t.Context(), o.Options)
	require.NoError(t, err)
	defer func() { assert.NoError(t, s.Close()) }()
	sh, err := shop.Open(t.Context(), o.Dir, s.Callers, true, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer func() { assert.NoError(t, sh.Close()) }()
	const orders = 120 / share
	require.NoError(t, s.Inventory.Stock(t.Context(), "kettle", orders))
	for n := range orders {
		placement := kettle(1)
		placement.Customer = fmt.Sprint("customer-", n%7)
		_, err := sh.Place(t.Context(), fmt.Sprint(n), placement)
		require.NoError(t, err)
		if n%(orders/3) == orders/6 {
			p.kill(t)
			<-time.After(50 * time.Millisecond) // how long it is away
			p = start(t, payments...)
		}
	}
	require.Eventually(t, func() bool {
		n, err := sh.Unended(t.Context())
		return assert.NoError(t, err) && n == 0
	}, waitAtMost, 10*time.Millisecond)
	parked, err := sh.Sagas.Parked(t.Context())
	require.NoError(t, err)
	require.Empty(t, parked)
	p.kill(t)

	require.NoError(t, sh.CatchUp(t.Context()))
	groups, err := sh.Summary(t.Context())
	require.NoError(t, err)
	by := map[order.Status]views.Group{}
	for _, g := range groups {
		by[g.Status] = g
	}
	assert.Equal(t, orders, by[order.Completed].Orders+by[order.Cancelled].Orders)
	assert.NotZero(t, by[order.Completed].Orders)
	mine := *o
	mine.Payment, mine.Dir, mine.Inventory, mine.Shipping = "", away, "http://127.0.0.1:1", "http://127.0.0.1:1"
	books, err := services.Open(t.Context(), mine.Options)
	require.NoError(t, err)
	defer func() { assert.NoError(t, books.Close()) }()
	sum, err := books.Payment.Sum(t.Context())
	require.NoError(t, err)
	assert.Equal(t, by[order.Completed].Cents, sum, "money captured = orders completed")
	captured, err := books.Gateway.Captured(t.Context())
	require.NoError(t, err)
	assert.Equal(t, sum, captured)
	open, err := books.Payment.Open(t.Context())
	require.NoError(t, err)
	assert.Zero(t, open)
	counts, err := s.Inventory.Counts(t.Context())
	require.NoError(t, err)
	assert.Zero(t, counts.Reserved)
	assert.EqualValues(t, by[order.Completed].Orders, counts.Sold)
}
