package main

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/orders/internal/checkout"
	"github.com/interlock-go/interlock/examples/orders/internal/wire"
	"github.com/interlock-go/interlock/internal/loopback"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/internal/rabbittest"
)

func nothing() []string { return nil }

// port returns the address of a port that stays free for a process.
func port(t *testing.T) string {
	t.Helper()
	claim, err := loopback.New()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, claim.Close()) })
	return claim.Addr(0)
}

// shopProcess returns the arguments of the shop in a process of its own, at an address,
// with services of this one, of which the gate, if any, holds the planning of shipments.
func (tw *town) shopProcess(address string, g *gate) []string {
	ships := tw.s.Shipping.Methods()
	if g != nil {
		ships = g.before(ships, "plan")
	}
	tw.url = "http://" + address
	args := []string{"-listen", address, "-dir", tw.o.Dir, "-payment", tw.serve(tw.s.Payment.Methods()),
		"-inventory", tw.serve(tw.s.Inventory.Methods()), "-shipping", tw.serve(ships)}
	if tw.o.db != "" {
		args = append(args, "-db", tw.o.db)
	}
	if !tw.o.isolated {
		args = append(args, "-isolated=false")
	}
	return args
}

// The shop's database, which has its sagas, events and read models, takes 500 ms longer
// for each answer, and is then killed and gone for a while.
func databaseGone(t *testing.T) (func(tw *town), func() []string) {
	server := pgtest.Start(t, "fsync=off")
	address := port(t)
	var link *pgtest.Link
	return func(tw *town) {
			p := start(tw.t, tw.shopProcess(address, nil)...)
			tw.ending = append(tw.ending, func() { p.kill(tw.t) })
			leave := tw.shopping()
			defer leave()
			tw.audit()
			tw.taking(tw.size.orders)
			link.Slow(500 * time.Millisecond)
			<-time.After(tw.size.slow)
			server.Kill()
			<-time.After(tw.size.gone)
			require.NoError(tw.t, server.Restart())
			link.Slow(0)
			tw.back = time.Now()
			tw.taking(tw.size.orders)
		}, func() (args []string) {
			var url string
			link, url = server.Link(t, server.Database(t))
			return []string{"-db", url}
		}
}

// The broker is killed with requests in flight: some are at the service, which has not
// answered, the others in its queue.
func brokerKilled(t *testing.T) (func(tw *town), func() []string) {
	node := broker(t)
	return func(tw *town) {
		t, g := tw.t, newGate()
		tw.openShop(checkout.Services{
			Payment:   tw.queue(node, "orders.payment", tw.s.Payment.Methods()),
			Inventory: tw.queue(node, "orders.inventory", tw.s.Inventory.Methods()),
			Shipping:  tw.queue(node, "orders.shipping", g.before(tw.s.Shipping.Methods(), "plan")),
		})
		tw.orderGood(tw.size.requests)
		require.Eventually(t, func() bool {
			_, _, held := g.look()
			return held+queued(t, node)["orders.shipping"] >= tw.size.requests
		}, waitAtMost, 10*tick, "all are in flight")
		require.NoError(t, node.Sync())
		require.NoError(t, node.Kill())
		g.forget(t)
		tw.audit()
		require.NoError(t, node.Restart())
		tw.back = time.Now()
		g.open()
		tw.TakenUp = g.await(t, tw.size.requests).Sub(tw.back)
		leave := tw.shopping()
		tw.taking(tw.size.orders)
		leave()
		require.Eventually(t, func() bool {
			left := 0
			for _, n := range queued(t, node) {
				left += n
			}
			return left == 0
		}, waitAtMost, 10*tick, "no request is left over")
	}, nothing
}

// queue serves a service of this process at a queue, and returns its caller.
func (tw *town) queue(node *rabbittest.Node, name string, s wire.Service) wire.Caller {
	serving, stop := context.WithCancel(context.WithoutCancel(tw.t.Context()))
	var all sync.WaitGroup
	all.Go(func() { wire.ServeAMQP(serving, node.URL(), name, s, slog.New(slog.DiscardHandler)) })
	caller := wire.NewAMQP(node.URL(), name)
	tw.ending = append(tw.ending, func() { assert.NoError(tw.t, caller.Close()); stop(); all.Wait() })
	return caller
}

// The process of the orchestrator is killed with sagas under way, all of which wait for the
// answer of a service. The next one takes them up again, each with its keys, before anybody
// else is let in. Then it is killed again and again at any moment.
func orchestratorKilled(t *testing.T) (func(tw *town), func() []string) {
	address := port(t)
	return func(tw *town) {
		t, g := tw.t, newGate()
		args := tw.shopProcess(address, g)
		p := start(t, args...)
		tw.ending = append(tw.ending, func() { p.kill(t) })
		tw.orderGood(tw.size.sagas)
		g.await(t, tw.size.sagas)
		p.kill(t)
		g.forget(t)
		began := time.Now()
		p = start(t, args...)
		answered := make(chan struct{})
		tw.audits.Go(func() {
			defer close(answered)
			for !tw.statement(0) && tw.ctx.Err() == nil {
				continue
			}
		})
		tw.TakenUp = g.await(t, tw.size.sagas).Sub(began)
		if tw.o.isolated {
			select {
			case <-answered:
				assert.Fail(t, "somebody has come between a saga and its keys")
			default:
			}
		}
		g.open()
		<-answered
		tw.audit()
		leave := tw.shopping()
		for range tw.size.kills {
			tw.taking(tw.size.orders / 2)
			<-time.After(time.Duration(rand.IntN(150)) * time.Millisecond) // when it is killed
			p.kill(t)
			p = start(t, args...)
		}
		tw.back = time.Now()
		leave()
	}, nothing
}

// The process of the payment service is killed again and again while checkouts call it,
// and is away for a while each time. Those that cannot be paid in time are cancelled.
func paymentKilled(t *testing.T) (func(tw *town), func() []string) {
	address := port(t)
	return func(tw *town) {
			t := tw.t
			args := []string{"-service", "payment", "-listen", address, "-dir", tw.o.Dir, "-unreliable", "0.05"}
			p := start(t, args...)
			tw.ending = append(tw.ending, func() { p.kill(t) })
			tw.openShop(tw.s.Callers)
			leave := tw.shopping()
			tw.audit()
			for range 3 {
				tw.taking(tw.size.orders)
				p.kill(t)
				<-time.After(tw.size.away)
				p = start(t, args...)
			}
			tw.back = time.Now()
			tw.taking(tw.size.orders)
			leave()
		}, func() []string {
			return []string{"-payment", "http://" + address}
		}
}
