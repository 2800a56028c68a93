package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// roundsEnv is how often all disturbances are to happen, and in full size.
const roundsEnv = "ORDERS_DISTURBED_ROUNDS"

// size is that of the disturbances.
type size struct {
	sagas    int           // under way when the orchestrator is killed
	requests int           // in flight when the broker is killed
	slow     time.Duration // how long the database is slow
	gone     time.Duration // and then gone
	away     time.Duration // how long the payment service is away each time
	kills    int           // of the orchestrator, at any moment
	orders   int           // that are taken before something happens, and after it
	shoppers int           // who order at the same time
	pause    time.Duration // of each between two orders
}

var (
	small = size{sagas: 100 / share, requests: 250 / share, slow: time.Second, gone: 2 * time.Second, away: 500 * time.Millisecond,
		kills: 1, orders: 6, shoppers: 8, pause: 100 * share * time.Millisecond}
	full = size{sagas: 100, requests: 250, slow: 30 * time.Second, gone: time.Minute, away: 3 * time.Second,
		kills: 5, orders: 200, shoppers: 40, pause: 2 * time.Second}
)

// outcome is what became of a disturbance.
type outcome struct {
	Orders     int
	Completed  int
	Undone     int           // cancelled because of it
	ByHand     int           // for an operator
	Wrong      int           // invariants that do not hold: something is lost, or there twice
	Statements int           // that were answered
	HalfDone   int           // orders on them that were half done
	Failed     int           // requests without an answer, or with an error, and made again
	Again      int           // orders with such a request
	TakenUp    time.Duration // until all sagas went on, since the start of the process; or all requests were delivered
	Ended      time.Duration // until all orders had ended, since what was away was back
}

func (o *outcome) add(one outcome) {
	o.Orders += one.Orders
	o.Completed += one.Completed
	o.Undone += one.Undone
	o.ByHand += one.ByHand
	o.Wrong += one.Wrong
	o.Statements += one.Statements
	o.HalfDone += one.HalfDone
	o.Failed += one.Failed
	o.Again += one.Again
	o.TakenUp, o.Ended = max(o.TakenUp, one.TakenUp), max(o.Ended, one.Ended)
}

// Whatever is slow, killed or away for a while, with orders under way: none is lost or
// done twice, nothing is oversold, all money is accounted for, every checkout ends, and
// nobody needs to help. With Keep nobody sees an order half done meanwhile.
func TestDisturbed(t *testing.T) {
	rounds, size := 1, small
	if text := os.Getenv(roundsEnv); text != "" {
		var err error
		rounds, err = strconv.Atoi(text)
		require.NoError(t, err)
		size = full
	}
	disturbances := []struct {
		name    string
		prepare func(t *testing.T) (happens func(tw *town), args func() []string)
	}{
		{"the database is slow, then gone", databaseGone},
		{"the broker is killed", brokerKilled},
		{"the orchestrator is killed", orchestratorKilled},
		{"the payment service is killed", paymentKilled},
	}
	outcomes := make([][2]outcome, len(disturbances))
	t.Run("all", func(t *testing.T) {
		for i, d := range disturbances {
			t.Run(d.name, func(t *testing.T) {
				if size == small {
					t.Parallel()
				}
				happens, args := d.prepare(t)
				for range rounds {
					for k, isolated := range []bool{true, false} {
						t.Run(fmt.Sprint("isolated=", isolated), func(t *testing.T) {
							tw := newTown(t, size, isolated, args()...)
							happens(tw)
							o := tw.settle()
							assert.Zero(t, o.ByHand)
							if isolated {
								assert.Zero(t, o.HalfDone)
							}
							outcomes[i][k].add(o)
						})
					}
				}
			})
		}
	})
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "| disturbance\t| Keep\t| orders\t| completed\t| undone by it\t| by hand\t| lost, twice\t| half done, on statements\t| asked again\t| taken up after\t| all ended after\t|")
	fmt.Fprintln(w, "| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t|")
	for i, d := range disturbances {
		for k, keep := range []string{"yes", "no"} {
			o := outcomes[i][k]
			up := "–"
			if o.TakenUp > 0 {
				up = o.TakenUp.Round(time.Millisecond).String()
			}
			fmt.Fprintf(w, "| %s\t| %s\t| %d\t| %d\t| %d\t| %d\t| %d\t| %d on %d\t| %d (%d orders)\t| %s\t| %v\t|\n", d.name, keep, o.Orders, o.Completed, o.Undone, o.ByHand, o.Wrong,
				o.HalfDone, o.Statements, o.Failed, o.Again, up, o.Ended.Round(100*time.Millisecond))
		}
	}
	require.NoError(t, w.Flush())
	t.Logf("%d rounds of %+v, race detector: %v\n%s", rounds, size, share > 1, &b)
}
