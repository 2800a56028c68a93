package storetest

import (
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// oddKeys are different keys, some of which a careless store may confuse.
var oddKeys = []lockkeys.Key{
	lockkeys.Root(),
	lockkeys.Must("/"), lockkeys.Must("%"), lockkeys.Must("%2F"), lockkeys.Must("a/b"), lockkeys.Must("a", "b"), lockkeys.Must("a%2Fb"),
	lockkeys.Must("a"), lockkeys.Must("A"), lockkeys.Must("a "), lockkeys.Must(" a"), lockkeys.Must("a\n"), lockkeys.Must("a\t"),
	lockkeys.Must("é"), lockkeys.Must("e\u0301"), lockkeys.Must("\xe9"), lockkeys.Must("ß"), lockkeys.Must("ss"),
	lockkeys.Must("\xff"), lockkeys.Must("\xff\xfe"), lockkeys.Must("\x01"), lockkeys.Must("\ufffd"), lockkeys.Must("日本"), lockkeys.Must("\U0001f512"),
	lockkeys.Must("'; DROP TABLE streams; --"), lockkeys.Must(`"`), lockkeys.Must(`\`), lockkeys.Must("_"), lockkeys.Must("*"), lockkeys.Must("?"), lockkeys.Must("$1"),
	lockkeys.Must("1"), lockkeys.Must("01"), lockkeys.Must("1.0"), lockkeys.Must("NULL"), lockkeys.Must("a=1;end, b"),
	lockkeys.Must(strings.Repeat("k", ordering.MaxStream)), lockkeys.Must(strings.Repeat("\xff", ordering.MaxStream)),
}

// oddNames are IDs that may be confused likewise.
var oddNames = []string{
	" ", "a", "A", "a ", "é", "e\u0301", "日本\U0001f512", "\n", "\x01", "'", `"`, `\`, `\u0041`, "%", "$1", "1", "01", "null", "a=1",
	strings.Repeat("n", ordering.MaxID), strings.Repeat("n", ordering.MaxID-1), strings.Repeat("日", ordering.MaxID/3),
}

var textTests = []test{
	{promise: "keys of any bytes are told apart", run: func(f *fixture) {
		f.acquireKeys(oddKeys...)
		want := make([]state, len(oddKeys))
		for i, key := range oddKeys {
			first, end := uint64(i+1), i%2 == 0
			r := f.record(&ordering.Event{Positions: []ordering.Position{{Stream: key, Number: first, End: end}}})
			f.ok(f.term.Commit(f.ctx, r))
			want[i] = state{Done: spans(first)}
			if i == 0 {
				want[i] = state{Last: 1}
			}
			if end {
				want[i].Ended = first
			}
			require.Equal(f, r.State(), f.jobAt(r.Event.Positions))
		}
		require.Equal(f, want, plain(f.acquireKeys(oddKeys...)))
	}},
	{promise: "events are held under keys of any bytes", run: func(f *fixture) {
		e := &ordering.Event{ID: "x"}
		for i, key := range oddKeys {
			e.Positions = append(e.Positions, ordering.Position{Stream: key, Number: uint64(i + 1)})
		}
		f.hold(e)
		for i, key := range oddKeys {
			events, err := f.term.Held(f.ctx, key, uint64(i+1), 1, 0)
			f.ok(err)
			require.Equal(f, []ordering.HeldEvent{{Event: e}}, events, "%q", key.String())
		}
		keys, err := f.term.Backlog(f.ctx)
		f.ok(err)
		require.ElementsMatch(f, oddKeys, keys)
		f.park(ordering.Parking{ID: "p", Reason: ordering.Failure, Streams: closing(e.Positions), Events: []ordering.HeldEvent{{Event: e}}, Since: at})
		parked := f.parked()
		require.Len(f, parked, 1)
		require.ElementsMatch(f, e.Positions, streamsOf(parked[0]))
		require.Empty(f, f.backlog())
	}},
	{promise: "IDs of any text are told apart", run: func(f *fixture) {
		f.acquire("a")
		for i, name := range oddNames {
			f.hold(&ordering.Event{ID: name, Positions: []ordering.Position{{Stream: lockkeys.Must("a"), Number: uint64(i + 1)}}})
		}
		require.Equal(f, oddNames, f.held("a", 0, 99))
		for i, name := range oddNames {
			e := &ordering.Event{ID: name, Positions: []ordering.Position{{Stream: lockkeys.Must("a"), Number: uint64(i + 1)}}}
			require.Nil(f, f.lookAt(e.Positions)[0].Job)
			f.commitHeld(e)
			require.Equal(f, name, f.jobAt(e.Positions).Event)
		}
		require.Empty(f, f.backlog())
	}},
	{promise: "errors of any bytes do not fail a commit", run: func(f *fixture) {
		f.acquire("a")
		r := f.record(event("x", "a=1"))
		r.Error = "bad byte \xff, NUL \x00, and " + strings.Repeat("very ", 10_000) + "long"
		f.ok(f.term.Commit(f.ctx, r))
		require.Contains(f, f.job("a=1").Error, "bad byte")
		p := failure("p", at, event("y", "b=1"))
		p.Error = r.Error
		f.park(p)
		require.Contains(f, f.parked()[0].Error, "bad byte")
		require.Contains(f, f.job("b=1").Error, "bad byte")
		key := lockkeys.Must("a")
		f.ok(f.term.Skip(f.ctx, ordering.Skipped{Stream: key, From: 2, To: 3, Fence: f.fences[key], Reason: r.Error, Time: at}))
		require.Contains(f, f.job("a=3").Reason, "bad byte")
	}},
}
