package sqlstore_test

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		child(path)
		return
	}
	_ = flag.Set("rapid.checks", "20") // each with many flushes to the disk
	flag.Parse()
	goleak.VerifyTestMain(m)
}
