package main

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/exampletest"
	"github.com/interlock-go/interlock/internal/loopback"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/orderingtest"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// A deposit is made once, though its sender repeats it, also after the service was killed.
func TestARepeatGetsTheSameAnswer(t *testing.T) {
	ports, err := loopback.New()
	require.NoError(t, err)
	defer ports.Close()
	address, path := ports.Addr(0), filepath.Join(t.TempDir(), "bank.db")
	start := func() *exampletest.Program { return exampletest.Start(t, "-listen", address, "-db", path) }

	service := start()
	require.Equal(t, "200 balance 10\n", post(t, address, "k1", `{"Account": "7", "Amount": 10}`))
	require.Equal(t, "200 balance 15\n", post(t, address, "k2", `{"Account": "7", "Amount": 5}`))
	require.Equal(t, "200 balance 10\n", post(t, address, "k1", `{"Account": "7", "Amount": 10}`))
	service.Kill()

	service = start()
	require.Equal(t, "200 balance 10\n", post(t, address, "k1", `{"Account": "7", "Amount": 10}`))
	require.Equal(t, "200 balance 16\n", post(t, address, "k3", `{"Account": "7", "Amount": 1}`))
	for key, body := range map[string]string{
		"k1": `{"Account": "7", "Amount": 99}`, // another deposit under a key that is taken
		"":   `{"Account": "7", "Amount": 10}`,
		"k4": `{"Account": "7", "Amount":`,
		"k5": `{"Account": "", "Amount": 10}`,
	} {
		require.Regexp(t, "^400 ordering: ", post(t, address, key, body))
	}
	require.Equal(t, "200 balance 17\n", post(t, address, "k5", `{"Account": "7", "Amount": 1}`), "k5 was not used up")
	service.Interrupt()
	service.Wait()
}

// post returns the status and the body of the answer, once there is one.
func post(t *testing.T, address, key, body string) (answer string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	exampletest.Until(t, func() bool { // it takes a moment to start
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Idempotency-Key", key)
		got, err := client.Do(r)
		if err != nil {
			return false
		}
		defer got.Body.Close()
		text, err := io.ReadAll(got.Body)
		answer = got.Status[:4] + string(text)
		return err == nil
	})
	return answer
}

// The handler, in a process that ends before, during and after each of its commits.
func TestADepositIsMadeOnce(t *testing.T) {
	orderingtest.EachCrash(t, func(t *testing.T, crash *orderingtest.Crash) {
		store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "bank.db"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = store.Close() })
		require.NoError(t, store.Migrate(t.Context(), "bank", []string{`CREATE TABLE accounts (name TEXT PRIMARY KEY, balance INT)`}))
		orderingtest.Deliver(t, crash, ordering.Config[deposit]{
			Store: store, Decode: func(*ordering.Event) (deposit, error) { return deposit{"7", 10}, nil },
			Keys: func(_ ordering.Job[deposit], claim *lockkeys.Claim) error {
				claim.Exclusive(lockkeys.Must("account", "7"))
				return nil
			},
			Handler: sqlstore.InTx(store, apply),
		}, &ordering.Event{ID: "k1"}, &ordering.Event{ID: "k2"})
		var balance int
		require.NoError(t, store.DB().QueryRow(`SELECT balance FROM accounts`).Scan(&balance))
		require.Equal(t, 20, balance)
	})
}
