package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/bench/parking"
	"github.com/interlock-go/interlock/bench/recovery"
)

func TestTargetLines(t *testing.T) {
	var text strings.Builder
	require.NoError(t, WriteTargets(&text, []Target{
		atMost("cost", 1.234, 1.5, "×"),
		atLeast("a peer's cost", 1.2, 2, "×"),
	}))
	require.Equal(t, strings.Join([]string{
		"cost           1.23 ×  ≤ 1.50 ×  met",
		"a peer's cost  1.20 ×  ≥ 2.00 ×  missed",
		"",
	}, "\n"), text.String())
}

func TestRecoveryTargets(t *testing.T) {
	d := Durable{
		Chain: recovery.Chain{Events: 6000, Elapsed: 400 * time.Millisecond, Requests: 12},
		Late:  parking.Late{Streams: 10_000, Parked: 6 * time.Second, Resumed: 2 * time.Second},
	}
	var text strings.Builder
	require.NoError(t, WriteTargets(&text, d.Targets()))
	require.Equal(t, strings.Join([]string{
		"a chain of 6000 events, from an outbox to a fresh database    0.40 s                                               ≤ 5.00 s  met",
		"10000 gaps that nobody fills, until all are parked on SQLite  6.00 s (resumed after 2.00 s, once the events come)  ≤ 5.00 s  missed",
		"",
	}, "\n"), text.String())
	require.Empty(t, Durable{}.Targets(), "nothing was measured")
}

func TestFunctionGroups(t *testing.T) {
	const set = "github.com/interlock-go/interlock/lockkeys.(*Set[*github.com/interlock-go/interlock/dispatcher.task[go.shape.*uint8]]).Add"
	for _, test := range []struct {
		group string
		stack []string // innermost first
	}{
		{"mutex", []string{"runtime.futex", "runtime.semawakeup", "internal/sync.(*Mutex).lockSlow", "sync.(*Mutex).Lock", "dispatcher.(*worker).next"}},
		{"set: add, remove", []string{"cmpbody", set, "dispatcher.(*Dispatcher).admitLocked"}},
		{"allocation, collection", []string{"runtime.nextFreeFast", "runtime.mallocgc", set}},
		{"handler call", []string{"sync/atomic.(*Uint64).Add", "sync.(*WaitGroup).Done", "bench.Work.handler.func1"}},
		{"scheduler", []string{"runtime.futex", "runtime.notesleep", "runtime.findRunnable", "runtime.schedule", "runtime.park_m", "runtime.mcall"}},
		{"other", []string{"main.main"}},
	} {
		require.Equal(t, test.group, groupOf(test.stack), "%v", test.stack)
	}
	require.Equal(t, "lockkeys.(*Set).Add", shortName(set))
}

func TestVirtualRows(t *testing.T) {
	v := Virtual{Worst: make(map[int]VirtualWorst)}
	require.NoError(t, v.learn("| uniform | 10 | 1ms | 8 | 1.006 | 2.220 | 2.4 |"))
	require.NoError(t, v.learn("| hot-20 | 10 | 1ms | 8 | 1.010 | 1.220 | 2.4 |"))
	require.Equal(t, map[int]VirtualWorst{8: {1.010, 2.220}}, v.Worst)
	require.Error(t, v.learn("| hot-20 | 10 |"))
	require.Error(t, v.learn("| hot-20 | 10 | 1ms | 8 | fast | 1.220 | 2.4 |"))
}

func TestCasesAreDifferent(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range Cases() {
		require.False(t, seen[c.String()], c.String())
		seen[c.String()] = true
	}
}

func TestGrowth(t *testing.T) {
	g := growth("", []string{"a", "b", "c"}, 3, func(at int) float64 { return float64(10 * (at%2 + 1)) })
	require.InDelta(t, 10, g.NS(0), 1e-9)
	require.InDelta(t, 2, g.Ratio(1, 2), 1e-9)
	require.InDelta(t, 2, g.Worst(), 1e-9)
}
