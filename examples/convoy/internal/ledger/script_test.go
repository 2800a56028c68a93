package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/interlock-go/interlock/examples/convoy/internal/ledger"
)

// A script is a ledger as it may come: its transactions are the orders'
// histories, interleaved, with some mistakes among them.
func TestScript(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := ledger.Shape{
			Orders: rapid.IntRange(2, 80).Draw(t, "orders"), Length: rapid.IntRange(1, 12).Draw(t, "length"),
			Ledgers: rapid.IntRange(1, 12).Draw(t, "ledgers"), Queues: rapid.IntRange(1, 8).Draw(t, "queues"),
			Seed: rapid.Uint64().Draw(t, "seed"),
		}
		s := o.Write()
		require.Equal(t, s, o.Write(), "the same seed makes the same one")
		require.Len(t, s.Orders, o.Orders)
		require.LessOrEqual(t, len(s.Ledgers), o.Ledgers)

		ops := map[string]ledger.Op{}
		histories := map[string][]string{}
		mistakes := 0
		for _, l := range s.Ledgers {
			for _, x := range l.Transactions {
				e, err := x.Event()
				require.NoError(t, err)
				if mistakes < len(s.Refused) && x.ID == s.Refused[mistakes] {
					if known := histories[x.Order]; ops[x.ID] != "" || x.ID == "spanning" || x.ID == "late" && ops[known[len(known)-1]] == ledger.Closing {
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
		require.Equal(t, len(s.Refused), mistakes)
		require.Len(t, ops, s.Good)
		for stream, plan := range s.Orders {
			require.Equal(t, plan.History, histories[stream])
			require.Equal(t, ledger.Create, ops[plan.History[0]])
			require.Equal(t, ledger.Closing, ops[plan.History[len(plan.History)-1]])
		}
	})
}
