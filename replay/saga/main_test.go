package saga_test

import (
	"flag"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/internal/pgtest"
)

// server is where the tests have their PostgreSQL databases, but for those that kill
// one. No power is lost.
var server = sync.OnceValues(func() (*pgtest.Server, error) { return pgtest.New("fsync=off") })

func TestMain(m *testing.M) {
	if where := os.Getenv(childEnv); where != "" {
		child(where)
		return
	}
	if args := os.Getenv(killerEnv); args != "" {
		killer(args)
		return
	}
	flag.Parse()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if s, err := server(); err == nil {
			s.Close()
		}
		os.Exit(code)
	}))
}
