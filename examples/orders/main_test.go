package main

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// programEnv makes the test's binary the program.
const programEnv = "ORDERS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	slog.SetDefault(slog.New(slog.DiscardHandler))
	flag.Parse()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = endNode()
		os.Exit(code)
	}))
}
