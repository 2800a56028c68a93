package wire_test

import (
	"log/slog"
	"time"
)

// A test that waits for longer than this counts as hanging.
const (
	waitAtMost = 2 * time.Minute
	tick       = 10 * time.Millisecond
)

var discard = slog.New(slog.DiscardHandler)
