package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// The quick start in the README is this program, and prints what it says.
func TestQuickStartIsInTheReadme(t *testing.T) {
	source, err := os.ReadFile("main.go")
	require.NoError(t, err)
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, program, ok := strings.Cut(string(source), "package main\n")
	require.True(t, ok)
	require.Contains(t, string(readme), "```go\npackage main\n"+program+"```", "README.md shows main.go as it is")

	out := exampletest.Run(t)
	require.Equal(t, "<nil> <nil> 249500 250000\n", out)
	require.Contains(t, string(readme), strings.TrimSpace(out))
}
