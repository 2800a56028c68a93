package backup

import (
	"flag"
	"log/slog"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	_ = flag.Set("rapid.nofailfile", "true")
	flag.Parse()
	goleak.VerifyTestMain(m)
}
