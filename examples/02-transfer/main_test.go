package main

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/interlocktest"
	"github.com/interlock-go/interlock/internal/exampletest"
	"github.com/interlock-go/interlock/lockkeys"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestTheProgram(t *testing.T) {
	require.Equal(t, strings.Repeat("credit of client/42 is 1500\n", 10), exampletest.Run(t))
}

// Transfers between all accounts and checks of all clients, in a hundred orders: no
// money comes or goes, and no check sees a transfer half done.
func TestInEveryOrder(t *testing.T) {
	interlocktest.Run(t, func(r *interlocktest.Round[message]) {
		accounts := []lockkeys.Key{account("1"), account("2"), account("3")}
		b := bank{}
		for _, a := range accounts {
			b[a] = new(100)
		}
		var checks [10]int
		for i := range checks {
			r.Submit(
				message{from: accounts[r.Rand.IntN(3)], to: accounts[r.Rand.IntN(3)], amount: i},
				message{client: lockkeys.Must("client", "42"), credit: &checks[i]},
			)
		}
		r.Dispatch(dispatcher.Config[message]{Keys: keys, Handler: b.handle})
		for _, credit := range checks {
			require.Equal(r.T, 300, credit)
		}
	})
}

// A transfer that declares only one of its accounts is found, though nobody else is there.
func TestWhatIsNotDeclaredIsFound(t *testing.T) {
	b := bank{account("1"): new(100), account("2"): new(100)}
	d, err := dispatcher.New(dispatcher.Config[message]{
		Keys:    func(m message, claim *lockkeys.Claim) error { claim.Exclusive(m.from); return nil },
		Handler: b.handle,
		Strict:  true,
	})
	require.NoError(t, err)
	err = d.Do(context.Background(), message{from: account("1"), to: account("2"), amount: 1})
	require.ErrorIs(t, err, dispatcher.ErrNotHeld)
	require.ErrorContains(t, err, account("2").String())
	require.NoError(t, d.Close())
}

func account(name string) lockkeys.Key { return lockkeys.Must("client", "42", "account", name) }
