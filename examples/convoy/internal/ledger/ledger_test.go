package ledger_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/convoy/internal/ledger"
)

// Whatever a ledger message has in it is an event that can be read again, or is
// refused.
func FuzzLedger(f *testing.F) {
	f.Add([]byte(`{"transactions":[{"id":"1","op":"create","order":"customer/1/order/1"}]}`))
	f.Add([]byte(`{"transactions":[{"id":"2","op":"move","of":"1","order":"customer/1/order/1","to":"customer/1/order/2"}]}`))
	f.Add([]byte(`{"transactions":[{"op":"close","order":"customer/%2F/order/%"},{}]}`))
	f.Add([]byte(`{"transactions":[{"op":"add","order":"customer/1/order/1","amount":1}]}`))
	f.Add([]byte(`{"transactions":{}}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		var l ledger.Message
		if json.Unmarshal(payload, &l) != nil {
			return
		}
		for _, want := range l.Transactions {
			e, err := want.Event()
			if err != nil {
				continue
			}
			var got ledger.Transaction
			require.NoError(t, json.Unmarshal(e.Payload, &got))
			require.Equal(t, want, got)
			require.NotEmpty(t, want.ID)
			require.NotEmpty(t, e.Positions)
			for _, p := range e.Positions {
				require.Equal(t, want.Op == ledger.Closing, p.End)
				require.Equal(t, 4, p.Stream.Depth())
			}
		}
	})
}
