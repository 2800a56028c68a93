package eventlog_test

import (
	"flag"
	"log"
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/internal/pgtest"
)

// server is the PostgreSQL server of all tests.
var server *pgtest.Server

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	if path := os.Getenv(childEnv); path != "" {
		child(path)
		return
	}
	_ = flag.Set("rapid.nofailfile", "true")
	_ = flag.Set("rapid.checks", "10")
	flag.Parse()
	var err error
	if server, err = pgtest.New(); err != nil {
		log.Fatal(err)
	}
	code := m.Run()
	server.Close()
	if err := goleak.Find(); err != nil && code == 0 {
		log.Println(err)
		code = 1
	}
	os.Exit(code)
}
