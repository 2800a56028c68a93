package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestTheProgram(t *testing.T) {
	out := exampletest.Run(t)
	inOrder(t, out, "account 7: no answer, attempt 1", "account 7: no answer, attempt 2", "account 7 got 10 in attempt 3")
	inOrder(t, out, "account 9 got 40", "parked: payment of 20 with 1 behind it", "the account is frozen",
		"account 8 got 20", "account 8 got 30")
}

// inOrder checks that the texts follow each other in what was written.
func inOrder(t *testing.T, out string, texts ...string) {
	t.Helper()
	rest := out
	for _, text := range texts {
		_, after, found := strings.Cut(rest, text)
		require.True(t, found, "%q comes too early, or not at all: %s", text, out)
		rest = after
	}
}
