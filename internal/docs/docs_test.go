// Package docs checks the documents of the module: their links lead somewhere, and their Go
// code is compiled.
package docs

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../.."

// files returns the files of the module with a suffix, by their paths from its root.
func files(t *testing.T, suffix string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && len(entry.Name()) > 2, entry.IsDir() && entry.Name() == "testdata":
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, suffix):
			return nil
		}
		text, err := os.ReadFile(name)
		rel, _ := filepath.Rel(root, name)
		all[filepath.ToSlash(rel)] = string(text)
		return err
	}))
	require.NotEmpty(t, all)
	return all
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	block   = regexp.MustCompile("(?s)```go\n(.*?)```")
	fenced  = regexp.MustCompile("(?s)```.*?```")
)

// anchor returns the name that a heading has in a link.
func anchor(text string) string {
	text = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`).ReplaceAllString(text, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(text))
}

// Each link to a file of the module leads to one, and each anchor to a heading.
func TestLinks(t *testing.T) {
	documents := files(t, ".md")
	anchors := map[string]map[string]bool{}
	for name, text := range documents {
		anchors[name] = map[string]bool{}
		for _, h := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			anchors[name][anchor(h[1])] = true
		}
	}
	for name, text := range documents {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, fragment, _ := strings.Cut(m[1], "#")
			target := name
			if file != "" {
				target = path.Join(path.Dir(name), file)
				_, err := os.Stat(filepath.Join(root, filepath.FromSlash(target)))
				assert.NoError(t, err, "%s: %s", name, m[1])
			}
			if fragment != "" && strings.HasSuffix(target, ".md") {
				assert.True(t, anchors[target][fragment], "%s: there is no heading for %s", name, m[1])
			}
		}
	}
}

// The Go code in each document is a part of a Go file beside it, or in a folder below, so it
// compiles.
func TestSnippets(t *testing.T) {
	sources := files(t, ".go")
	flat := map[string]string{}
	for name, text := range sources {
		flat[name] = unindented(text)
	}
	for name, text := range files(t, ".md") {
		for _, m := range block.FindAllStringSubmatch(text, -1) {
			want, found := unindented(m[1]), false
			for file, source := range flat {
				beside := path.Dir(name) == "." || strings.HasPrefix(file, path.Dir(name)+"/")
				found = found || beside && strings.Contains(source, want)
			}
			assert.True(t, found, "%s: this is in no Go file beside or below it:\n%s", name, m[1])
		}
	}
}

// unindented returns the lines of a text without their indentation, which is deeper where a
// part of a function is shown.
func unindented(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimLeft(line, "\t")
	}
	return strings.Join(lines, "\n")
}
