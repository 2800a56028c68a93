package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A script is a ledger as it may come: its transactions are the orders'
// histories, interleaved, with some mistakes among them.
func TestScript(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := &options{
			orders: rapid.IntRange(2, 80).Draw(t, "orders"), length: rapid.IntRange(1, 12).Draw(t, "length"),
			ledgers: rapid.IntRange(1, 12).Draw(t, "ledgers"), queues: rapid.IntRange(1, 8).Draw(t, "queues"),
			seed: rapid.Uint64().Draw(t, "seed"),
		}
		s := o.write()
		require.Equal(t, s, o.write(), "the same seed makes the same one")
		require.Len(t, s.orders, o.orders)
		require.LessOrEqual(t, len(s.ledgers), o.ledgers)

		ops := map[string]op{}
		histories := map[string][]string{}
		mistakes := 0
		for _, l := range s.ledgers {
			for _, x := range l.Transactions {
				e, err := x.event()
				require.NoError(t, err)
				if mistakes < len(s.refused) && x.ID == s.refused[mistakes] {
					if known := histories[x.Order]; ops[x.ID] != "" || x.ID == "spanning" || x.ID == "late" && ops[known[len(known)-1]] == closing {
						mistakes++
						continue
					}
				}
				ops[x.ID] = x.Op
				for _, p := range e.Positions {
					histories[p.Stream.String()] = append(histories[p.Stream.String()], x.ID)
				}
			}
		}
		require.Equal(t, len(s.refused), mistakes)
		require.Len(t, ops, s.good)
		for stream, plan := range s.orders {
			require.Equal(t, plan.history, histories[stream])
			require.Equal(t, create, ops[plan.history[0]])
			require.Equal(t, closing, ops[plan.history[len(plan.history)-1]])
		}
	})
}
