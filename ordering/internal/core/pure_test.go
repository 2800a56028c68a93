package core

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pure is what the package may import: nothing that waits, knows the time, is
// random, logs, or is done at once by several goroutines.
var pure = map[string]bool{
	"cmp": true, "container/heap": true, "errors": true, "fmt": true, "maps": true, "math": true, "slices": true, "time": true,
	"github.com/interlock-go/interlock/lockkeys": true,
}

// timeless is what the package may use of package time.
var timeless = map[string]bool{"Time": true, "Duration": true, "Millisecond": true, "Second": true}

// The package is a pure function of its inputs: it has no goroutine, and uses
// nothing that could make two runs of a simulation differ, or wait.
func TestCoreIsPure(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	set := token.NewFileSet()
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, 0)
		require.NoError(t, err)
		for _, spec := range file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			require.Truef(t, pure[path], "%s imports %s", name, path)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt, *ast.SelectStmt, *ast.ChanType, *ast.SendStmt:
				t.Errorf("%s: a core has no goroutine and no channel", set.Position(n.Pos()))
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" {
					require.Truef(t, timeless[n.Sel.Name], "%s uses time.%s", set.Position(n.Pos()), n.Sel.Name)
				}
			}
			return true
		})
	}
}
