package measure

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/failover/internal/feed"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

// order is event n, the number-th one of its key, that came into being at ms.
func order(n, key int, number uint64, ms int) feed.Order {
	return feed.Order{N: n, Key: key, Number: number, Due: at(ms)}
}

func applied(o feed.Order, ms int, c feed.Channel) feed.Applied {
	return feed.Applied{Order: o, Channel: c, At: at(ms)}
}

// Of five events one is lost, one overtakes another of its key, and one is
// applied twice.
func TestFigures(t *testing.T) {
	a1, a2, a3 := order(1, 1, 1, 0), order(2, 1, 2, 10), order(4, 1, 3, 30)
	b1, b2 := order(3, 2, 1, 20), order(5, 2, 2, 40)
	f := Of(Run{
		Sent: []feed.Order{a1, a2, b1, a3, b2},
		Applied: []feed.Applied{
			applied(a1, 5, feed.Broker), applied(a3, 60, feed.HTTP), applied(a2, 70, feed.Replay),
			applied(b1, 80, feed.Broker), applied(b1, 90, feed.Broker),
		},
		Outages: []Outage{{Died: at(25), Back: at(50)}, {Died: at(100), Back: at(110)}},
	})
	require.Equal(t, 5, f.Sent)
	require.Equal(t, 4, f.Delivered)
	require.Equal(t, 3, f.Ordered, "all but a2")
	require.Equal(t, 1, f.Duplicates)
	require.InDelta(t, 0.8, f.DeliveredShare(), 1e-9)
	require.InDelta(t, 0.75, f.Order(), 1e-9)
	require.InDelta(t, 0.25, f.ChannelShare(feed.HTTP), 1e-9)
	require.Equal(t, []time.Duration{35 * time.Millisecond}, f.Recoveries, "until a3 is applied, the first event after the death")
	require.Equal(t, 1, f.Unrecovered, "nothing came after the second one")
	require.Equal(t, []time.Duration{5 * time.Millisecond, 30 * time.Millisecond, 60 * time.Millisecond, 60 * time.Millisecond}, f.Latencies)
}

func TestMedians(t *testing.T) {
	require.True(t, math.IsNaN(Median(nil)))
	require.InDelta(t, 2, Median([]float64{9, 1, 2}), 1e-9)
	require.InDelta(t, 3, Median([]float64{4, 1, 9, 2}), 1e-9)
	require.True(t, math.IsNaN(Quantile(nil, 0.5)))
	ten := []time.Duration{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	require.InDelta(t, 10, Quantile(ten, 0.99), 1e-9)
	require.InDelta(t, 1, Quantile(ten, 0), 1e-9)
	r := Rounds{{100, 110}, {200, 210}, {100, 130}}
	median, low, high := r.Overhead(1, 0)
	require.InDeltaSlice(t, []float64{0.1, 0.05, 0.3}, []float64{median, low, high}, 1e-9)
	require.InDelta(t, 130, r.Latency(1), 1e-9)
}

func TestVerdicts(t *testing.T) {
	good := Figures{Sent: 10, Delivered: 10, Ordered: 10, Channels: map[feed.Channel]int{}, Recoveries: []time.Duration{time.Millisecond}}
	for name, change := range map[string]func(*Figures){
		"missed  all delivered: 9 of 10":                  func(f *Figures) { f.Delivered, f.Ordered = 9, 9 },
		"missed  all in order: 9 of 10":                   func(f *Figures) { f.Ordered = 9 },
		"missed  nothing twice: 1 duplicates":             func(f *Figures) { f.Duplicates = 1 },
		"missed  MTTR under 100ms: 300.0 ms in 1 outages": func(f *Figures) { f.Recoveries = []time.Duration{300 * time.Millisecond} },
		"missed  recovered each time: after 1 outages":    func(f *Figures) { f.Unrecovered = 1 },
	} {
		f := good
		change(&f)
		table := &Table{Columns: []Column{{Name: "plain", Outages: good}, {Name: "ours", Outages: f}}}
		lines, isGood := table.Verdicts()
		require.Contains(t, strings.Join(lines, "\n"), name)
		require.Equal(t, strings.Contains(name, "MTTR") || strings.Contains(name, "recovered"), isGood, name)
		var text strings.Builder
		require.NoError(t, table.Write(&text))
		require.Contains(t, text.String(), "order coefficient")
	}
}
