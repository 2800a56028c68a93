// Package snippets keeps the code that documents show equal to the code that is compiled.
package snippets

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	code   = regexp.MustCompile("(?s)```go\n(.*?)```")
	linked = regexp.MustCompile("(?s)\\]\\(([^()\n]+\\.go)\\)[^\n]*\n\n```go\n(.*?)```")
)

// In checks that each piece of Go in a document is a part of one source.
func In(t testing.TB, document, source string) {
	t.Helper()
	pieces := code.FindAllStringSubmatch(read(t, document), -1)
	require.NotEmpty(t, pieces)
	for _, p := range pieces {
		contains(t, source, p[1])
	}
}

// Linked checks that each piece of Go in a document is a part of the source that the line
// before it links to, the last one if there are several.
func Linked(t testing.TB, document string) {
	t.Helper()
	text := read(t, document)
	pieces := linked.FindAllStringSubmatch(text, -1)
	require.NotEmpty(t, pieces)
	require.Len(t, pieces, len(code.FindAllString(text, -1)), "a piece of code in %s has no link to its source above it", document)
	for _, p := range pieces {
		contains(t, filepath.Join(filepath.Dir(document), p[1]), p[2])
	}
}

func contains(t testing.TB, source, piece string) {
	t.Helper()
	assert.Contains(t, read(t, source), strings.TrimRight(piece, "\n"), "a piece of code that is not in %s", source)
}

func read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}
