package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/exampletest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestEachEventIsAppliedOnce(t *testing.T) {
	database := pgtest.Start(t, "fsync=off").Database(t)
	const want = "100 transfers; all accounts together have 0 <nil>\n"
	require.Equal(t, want, exampletest.Run(t, "-db", database))
	require.Equal(t, want, exampletest.Run(t, "-db", database), "once more")
}
