package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/interlock-go/interlock/examples/failover/internal/feed"
	"github.com/interlock-go/interlock/examples/failover/internal/plain"
)

// roles are what the processes of the experiment are.
var roles = map[feed.Role]func(context.Context, *feed.Child) error{
	feed.PlainProducer:    plain.Produce,
	feed.PlainConsumer:    plain.Consume,
	feed.NumberedProducer: produce,
	feed.NumberedConsumer: consume,
}

// beChild is the program as one of the experiment's processes. It ends with its
// standard input.
func beChild(stdin io.Reader, stdout, stderr io.Writer) int {
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	slog.SetDefault(slog.New(slog.NewTextHandler(stderr, nil)))
	err := func() error {
		c, err := feed.Open(stdin, stdout)
		if err != nil {
			return err
		}
		role, ok := roles[c.Role]
		if !ok {
			return fmt.Errorf("no role %q", c.Role)
		}
		return role(context.Background(), c)
	}()
	if err != nil {
		slog.Error("ended", "err", err)
		return exitBad
	}
	return exitGood
}
