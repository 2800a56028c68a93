package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/examples/orders/internal/checkout"
	"github.com/interlock-go/interlock/examples/orders/internal/order"
	"github.com/interlock-go/interlock/examples/orders/internal/services"
	"github.com/interlock-go/interlock/examples/orders/internal/shop"
	"github.com/interlock-go/interlock/examples/orders/internal/views"
	"github.com/interlock-go/interlock/examples/orders/internal/web"
	"github.com/interlock-go/interlock/examples/orders/internal/wire"
)

// tick is how often a test looks.
const tick = 5 * time.Millisecond

// Of a town.
const (
	customers = 8
	eachStock = 1_000_000
	patience  = 10 * time.Second // of who waits for the shop's answer
)

// town is a shop with its services, some in this process and some not, its customers, who
// order again until the shop has taken the order, and auditors, who ask for statements.
type town struct {
	t    *testing.T
	o    *options
	s    *services.Services // of this process
	size size
	url  string // of the shop

	http   http.Client
	ctx    context.Context // of the auditors
	stop   context.CancelFunc
	audits sync.WaitGroup
	ending []func() // the last first
	back   time.Time

	mu     sync.Mutex // guards what follows
	random *rand.Rand
	placed []order.Placement // the order n has the ID of n+1
	taken  int
	outcome
}

// newTown opens services in this process, but not those with a URL in args.
func newTown(t *testing.T, size size, isolated bool, args ...string) *town {
	o, err := parse(append(args, "-unreliable", "0.05", fmt.Sprint("-isolated=", isolated)), io.Discard)
	require.NoError(t, err)
	o.Dir = t.TempDir()
	tw := &town{t: t, o: o, size: size, random: rand.New(rand.NewPCG(rand.Uint64(), 0)), http: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	tw.ctx, tw.stop = context.WithCancel(t.Context())
	tw.s, err = services.Open(t.Context(), o.Options)
	require.NoError(t, err)
	tw.ending = append(tw.ending, func() { assert.NoError(t, tw.s.Close()) }, tw.http.CloseIdleConnections)
	for p := range productCount {
		require.NoError(t, tw.s.Inventory.Stock(t.Context(), product(p), eachStock))
	}
	return tw
}

// serve serves a service of this process over HTTP and returns its URL.
func (tw *town) serve(s wire.Service) string {
	server := httptest.NewServer(wire.Handler(s, ""))
	tw.ending = append(tw.ending, server.Close)
	return server.URL
}

// openShop opens the shop in this process.
func (tw *town) openShop(callers checkout.Services) {
	sh, err := shop.Open(tw.t.Context(), tw.o.shopDB(), callers, tw.o.isolated, slog.New(slog.DiscardHandler))
	require.NoError(tw.t, err)
	server := httptest.NewServer(web.Handler(sh, ""))
	tw.url = server.URL
	tw.ending = append(tw.ending, func() { assert.NoError(tw.t, sh.Close()) }, server.Close)
}

// ask sends a request to the shop, and returns the code, or 0 if there was no answer.
func (tw *town) ask(ctx context.Context, method, path string, in, out any) (code int) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	body, err := json.Marshal(in)
	require.NoError(tw.t, err)
	r, err := http.NewRequestWithContext(ctx, method, tw.url+path, bytes.NewReader(body))
	require.NoError(tw.t, err)
	answer, err := tw.http.Do(r)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0
	}
	if out != nil && answer.StatusCode == http.StatusOK {
		assert.NoError(tw.t, json.Unmarshal(text, out))
	}
	return answer.StatusCode
}

// fails reports whether an order is to be cancelled, whatever happens to the shop.
func fails(p order.Placement) bool {
	return p.Card != "card" || p.Country == "AQ" || !strings.HasPrefix(p.Lines[0].Product, "product-")
}

// order has a made-up order placed, and placed again until it is taken.
func (tw *town) order(good bool) {
	tw.mu.Lock()
	p := placement(tw.random)
	for good && fails(p) {
		p = placement(tw.random)
	}
	p.Customer = fmt.Sprint("customer-", len(tw.placed)%customers)
	tw.placed = append(tw.placed, p)
	id := fmt.Sprintf("%08d", len(tw.placed))
	tw.mu.Unlock()
	failed := 0
	for tw.ask(context.WithoutCancel(tw.t.Context()), "PUT", "/orders/"+id, p, nil) != http.StatusAccepted {
		failed++
		<-time.After(dispatcher.Backoff{}.WithDefaults(50*time.Millisecond, 2*time.Second).Wait(failed))
	}
	tw.mu.Lock()
	defer tw.mu.Unlock()
	tw.taken++
	tw.Failed += failed
	if failed > 0 {
		tw.Again++
	}
}

// orderGood places a number of orders, which only the shop itself can fail.
func (tw *town) orderGood(n int) {
	var all sync.WaitGroup
	for i := range customers {
		all.Go(func() {
			for range (n - i + customers - 1) / customers {
				tw.order(true)
			}
		})
	}
	all.Wait()
}

// shopping has customers order all the time, until leave is called. It returns when the
// shop has taken their last order.
func (tw *town) shopping() (leave func()) {
	enough := make(chan struct{})
	var all sync.WaitGroup
	for range tw.size.shoppers {
		all.Go(func() {
			for {
				select {
				case <-enough:
					return
				case <-time.After(tw.size.pause):
					tw.order(false)
				}
			}
		})
	}
	return sync.OnceFunc(func() { close(enough); all.Wait() })
}

// taking waits until the shop has taken that many orders more.
func (tw *town) taking(more int) {
	tw.t.Helper()
	taken := func() int { tw.mu.Lock(); defer tw.mu.Unlock(); return tw.taken }
	want := taken() + more
	require.Eventually(tw.t, func() bool { return taken() >= want }, waitAtMost, tick)
}

// audit has auditors ask for statements, and count orders that are half done.
func (tw *town) audit() {
	for i := range 2 {
		tw.audits.Go(func() {
			for n := i; tw.ctx.Err() == nil; n++ {
				tw.statement(n % customers)
				select {
				case <-tw.ctx.Done():
				case <-time.After(4 * tick):
				}
			}
		})
	}
}

// statement asks for one, and reports whether there was an answer.
func (tw *town) statement(customer int) bool {
	var list []views.Details
	if tw.ask(tw.ctx, "GET", fmt.Sprintf("/customers/customer-%d/statement", customer), nil, &list) != http.StatusOK {
		return false
	}
	tw.mu.Lock()
	defer tw.mu.Unlock()
	tw.Statements++
	for _, d := range list {
		if d.Status != order.Pending && !d.Status.Ended() {
			tw.HalfDone++
		}
	}
	return true
}

// explain logs what happened to an order that has not ended.
func (tw *town) explain() {
	for n := range tw.placed {
		id := fmt.Sprintf("%08d", n+1)
		var o order.Order
		var entries []shop.Entry
		code := tw.ask(tw.t.Context(), "GET", "/orders/"+id, nil, &o)
		if code == http.StatusOK && o.Status.Ended() {
			continue
		}
		tw.ask(tw.t.Context(), "GET", "/orders/"+id+"/trace", nil, &entries)
		for _, e := range entries {
			tw.t.Logf("order %s, %s: %d %s %.300s", id, o.Status, e.Place, e.What, e.Payload)
		}
		if len(entries) > 0 {
			return
		}
	}
}

// settle waits until all orders have ended, ends the town, and checks all databases.
func (tw *town) settle() outcome {
	t := tw.t
	defer func() {
		if t.Failed() {
			tw.explain()
		}
	}()
	require.Eventually(t, func() bool {
		var groups []views.Group
		n := 0
		if tw.ask(t.Context(), "GET", "/summary", nil, &groups) == http.StatusOK {
			for _, g := range groups {
				if g.Status.Ended() {
					n += g.Orders
				}
			}
		}
		return n == len(tw.placed)
	}, waitAtMost, 4*tick, "all orders end")
	tw.Ended = time.Since(tw.back)
	tw.stop()
	tw.audits.Wait()
	for i := len(tw.ending) - 1; i >= 0; i-- {
		tw.ending[i]()
	}

	here := *tw.o
	here.Payment, here.Inventory, here.Shipping, here.orders = "", "", "", len(tw.placed)
	s, err := services.Open(t.Context(), here.Options)
	require.NoError(t, err)
	defer func() { assert.NoError(t, s.Close()) }()
	sh, err := shop.Open(t.Context(), here.shopDB(), s.Callers, here.isolated, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer func() { assert.NoError(t, sh.Close()) }()
	require.NoError(t, sh.CatchUp(t.Context()), "no read model is parked")
	parked, err := sh.Sagas.Parked(t.Context())
	require.NoError(t, err)
	tw.ByHand = len(parked)
	var report strings.Builder
	good, err := here.report(t.Context(), &report, sh, s, productCount*eachStock)
	require.NoError(t, err)
	assert.True(t, good, report.String())
	tw.Wrong = strings.Count(report.String(), "WRONG")
	tw.Orders = len(tw.placed)
	for n, p := range tw.placed {
		is, err := sh.Order(t.Context(), fmt.Sprintf("%08d", n+1))
		require.NoError(t, err)
		switch {
		case is.Status == order.Completed:
			tw.Completed++
			assert.False(t, fails(p), "%+v", is)
		case !fails(p):
			tw.Undone++
		}
	}
	return tw.outcome
}
