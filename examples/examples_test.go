// Package examples_test checks what all small examples have in common.
package examples_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const maxLines = 79

func TestSmallExamples(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	sources, err := filepath.Glob("[0-9][0-9]-*/*.go")
	require.NoError(t, err)
	programs := 0
	for _, path := range sources {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		programs++
		dir, file := filepath.Split(path)
		name := filepath.Clean(dir)
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, "main.go", file, "an example is one file")
			require.FileExists(t, dir+"main_test.go")
			lines := strings.Count(string(text), "\n")
			assert.LessOrEqual(t, lines, maxLines)
			assert.Regexp(t, fmt.Sprintf(`(?m)^\| \[%s\]\(%s\) \|.*\| %d \|$`, name, path, lines), string(readme), "README.md has its lines")

			parsed, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments)
			require.NoError(t, err)
			for _, i := range parsed.Imports {
				assert.NotContains(t, i.Path.Value, "/internal/", "nobody else could import it")
			}
			require.NotNil(t, parsed.Doc, "it has no comment at the top")
			assert.Contains(t, parsed.Doc.Text(), "go run ./examples/"+name)
			assert.Contains(t, parsed.Doc.Text(), "\nNext: ")
		})
	}
	require.Equal(t, programs, strings.Count(string(readme), "/main.go) |"), "README.md lists all of them")
}
