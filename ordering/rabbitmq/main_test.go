package rabbitmq_test

import (
	"flag"
	"log"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/internal/rabbittest"
)

// node is the broker that the tests share. The first test that wants it waits
// for its start.
var node = sync.OnceValues(func() (*rabbittest.Node, error) { return rabbittest.New() })

// nodeStarted tells TestMain whether there is a node to close.
var nodeStarted atomic.Bool

// broker returns the node that the tests share. Tests that kill one have one of
// their own.
func broker(t testing.TB) *rabbittest.Node {
	t.Helper()
	n, err := node()
	if err != nil {
		t.Fatal(err)
	}
	nodeStarted.Store(true)
	return n
}

func TestMain(m *testing.M) {
	if os.Getenv(killedStore) != "" {
		killed()
	}
	slog.SetDefault(slog.New(slog.DiscardHandler))
	_ = flag.Set("rapid.nofailfile", "true")
	flag.Parse()
	code := m.Run()
	if nodeStarted.Load() {
		if n, err := node(); err == nil {
			_ = n.Close()
		}
	}
	if err := goleak.Find(); err != nil && code == 0 {
		log.Println(err)
		code = 1
	}
	os.Exit(code)
}
