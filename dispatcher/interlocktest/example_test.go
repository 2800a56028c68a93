package interlocktest_test

import (
	"context"
	"testing"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/interlocktest"
	"github.com/interlock-go/interlock/lockkeys"
)

// deposit is a message of the examples.
type deposit struct {
	account string
	amount  int
}

func (m deposit) key() lockkeys.Key { return lockkeys.Must("account", m.account) }

// keys declares what a deposit needs.
func keys(m deposit, claim *lockkeys.Claim) error {
	claim.Exclusive(m.key())
	return nil
}

// ledger is what the handler changes: it says what it touches, where it does.
type ledger struct{ balance map[string]int }

func (l *ledger) deposit(ctx context.Context, m deposit) error {
	dispatcher.Touch(ctx, m.key(), lockkeys.Exclusive)
	l.balance[m.account] += m.amount
	return nil
}

// testDeposits is a test of the handler, in a hundred orders.
func testDeposits(t *testing.T) {
	interlocktest.Run(t, func(r *interlocktest.Round[deposit]) {
		l := &ledger{balance: map[string]int{}}
		for range 20 {
			r.Submit(deposit{"7", 1 + r.Rand.IntN(100)})
		}
		history := r.Dispatch(dispatcher.Config[deposit]{Keys: keys, Handler: l.deposit})
		want := 0
		for _, a := range history.Attempts {
			want += a.Message.amount
		}
		if l.balance["7"] != want {
			r.T.Errorf("%d on the account, want %d", l.balance["7"], want)
		}
	})
}

// testDeposit calls the handler by itself: what it asks of its message is real, and
// what it touches must be declared.
func testDeposit(t *testing.T) {
	l, m := &ledger{balance: map[string]int{}}, deposit{"7", 100}
	call := interlocktest.NewCall(t, lockkeys.Request{Key: m.key()})
	if err := l.deposit(call.Context(), m); err != nil {
		t.Fatal(err)
	}
	if touched := call.Touched(); len(touched) != 1 || l.balance["7"] != 100 {
		t.Error(touched, l.balance)
	}
}

// Two tests of a handler: in all orders, and alone.
func Example() {
	var t *testing.T // that of TestDeposits and TestDeposit
	testDeposits(t)
	testDeposit(t)
}
