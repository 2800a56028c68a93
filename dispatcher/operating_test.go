package dispatcher_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever is logged as an error is explained in OPERATING.md, and nothing else is.
func TestErrorsAreExplained(t *testing.T) {
	text, err := os.ReadFile("OPERATING.md")
	require.NoError(t, err)
	_, list, found := strings.Cut(string(text), "## What is logged as an error")
	require.True(t, found)
	explained := map[string]bool{}
	for _, line := range strings.Split(list, "\n") {
		if cells := strings.Split(line, " | "); len(cells) == 3 && !strings.HasPrefix(line, "| line") && !strings.HasPrefix(line, "| ---") {
			explained[strings.TrimPrefix(cells[0], "| ")] = false
		}
	}
	logged := regexp.MustCompile(`(?:Logger|log)\.Error(?:Context\(ctx, |\()"([^"]+)"`)
	for _, root := range []string{".", "../ordering", "../replay"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for _, m := range logged.FindAllStringSubmatch(string(source), -1) {
				_, is := explained[m[1]]
				assert.True(t, is, "%s: %q is not in OPERATING.md", path, m[1])
				explained[m[1]] = true
			}
			return err
		}))
	}
	for line, is := range explained {
		assert.True(t, is, "nobody logs %q", line)
	}
}
