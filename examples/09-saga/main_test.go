package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestWhatIsNotPaidIsUndone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shop.db")
	for range 2 { // the second time they are there already
		out := exampletest.Run(t, "-db", path)
		require.Contains(t, out, "order-1 completed <nil>\n")
		require.Contains(t, out, "order-2 compensated <nil>\n")
		require.Contains(t, out, "chairs left: 9 <nil>\n")
	}
}
