package producer_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/producer"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What the broker does not take ends the producer, which says so. When it is
// started again, the broker is asked again.
func TestWhatCannotBeSentIsTriedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outbox.db")
	tooLarge := errors.New("too large")
	err := produce(t, path, func(*ordering.Event) error { return dispatcher.Permanent(tooLarge) })
	require.ErrorContains(t, err, "cannot be sent: too large: start it again when the broker takes it")

	var sent []string
	require.NoError(t, produce(t, path, func(e *ordering.Event) error {
		sent = append(sent, e.Positions[0].Stream.String())
		return nil
	}))
	require.Len(t, sent, 1)
	require.LessOrEqual(t, len(sent[0]), 130, "though the account's name is long")
}

// The database of a ledger is none for a producer, and stays as it is; a new one
// is its owner's alone.
func TestItsDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	ledger, err := store.Open(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, ledger.Close())
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	_, err = producer.Open(t.Context(), path)
	require.ErrorIs(t, err, store.ErrForeign)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)

	path = filepath.Join(t.TempDir(), "outbox.db")
	for range 2 {
		p, err := producer.Open(t.Context(), path)
		require.NoError(t, err)
		require.NoError(t, p.Close())
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// produce is a run of a producer whose input has one message.
func produce(t *testing.T, path string, publish func(e *ordering.Event) error) error {
	t.Helper()
	p, err := producer.Open(t.Context(), path)
	require.NoError(t, err)
	defer p.Close()
	m, err := book.Decode([]byte(`{"op":"open","account":"` + strings.Repeat("x", 512) + `"}`))
	require.NoError(t, err)
	require.NoError(t, p.Add(t.Context(), m))

	ctx, end := context.WithCancel(t.Context())
	relayed := make(chan error, 1)
	go func() {
		relayed <- p.Relay(ctx, outbox.PublisherFunc(func(_ context.Context, e *ordering.Event) error { return publish(e) }), slog.New(slog.DiscardHandler))
	}()
	err = p.Settle(t.Context())
	end()
	require.NoError(t, <-relayed)
	return err
}
