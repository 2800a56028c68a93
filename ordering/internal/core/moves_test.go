package core

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

var tables = []*moves{&machineMoves, &eventMoves, &streamMoves, &gapMoves, &feedMoves, &parkingMoves, &decisionMoves, &runMoves}

// happened has a bit for each move that a test has seen.
var happened = map[*moves]*[16]atomic.Uint32{}

func TestMain(m *testing.M) {
	for _, table := range tables {
		seen := &[16]atomic.Uint32{}
		happened[table] = seen
		table.seen = func(from, to uint8) {
			if seen[from].Load()>>to&1 == 0 {
				seen[from].Or(1 << to)
			}
		}
	}
	os.Exit(m.Run())
}

// checkMoves looks whether the tables have a line that never happens.
func checkMoves(t *testing.T) {
	for _, table := range tables {
		for from, next := range table.next {
			for to, name := range table.names {
				if next>>to&1 == 1 && happened[table][from].Load()>>to&1 == 0 {
					t.Errorf("%s never goes from %s to %s", table.of, table.names[from], name)
				}
			}
		}
	}
}

// The tables in the comments of the types are those in the code, but for the
// moves to over that a sentence behind the table allows from every state.
func TestTablesAreAsTheCommentsSay(t *testing.T) {
	commented := map[string]*moves{
		"machineState": &machineMoves, "EventState": &eventMoves, "streamState": &streamMoves, "gapState": &gapMoves,
		"feedState": &feedMoves, "parkingState": &parkingMoves, "decisionState": &decisionMoves, "RunState": &runMoves,
	}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	found := 0
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		require.NoError(t, err)
		for _, decl := range file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.TYPE || gen.Doc == nil {
				continue
			}
			typ := gen.Specs[0].(*ast.TypeSpec).Name.Name
			if table := commented[typ]; table != nil {
				found++
				require.Equal(t, inCode(table), inComment(t, table, gen.Doc.Text()), typ)
			}
		}
	}
	require.Equal(t, len(commented), found)
}

func inCode(table *moves) (lines []string) {
	for from, next := range table.next {
		for to, name := range table.names {
			if next>>to&1 == 1 && name != "over" {
				lines = append(lines, table.names[from]+" to "+name)
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func inComment(t *testing.T, table *moves, text string) (lines []string) {
	from, to := -1, -1
	for line := range strings.Lines(text) {
		switch {
		case !strings.HasPrefix(line, "\t"):
			continue
		case strings.HasPrefix(line, "\tfrom "):
			from, to = 1, strings.Index(line, " to ")+1
			continue
		}
		state := func(name string) string {
			if s := strings.TrimPrefix(name, "feed"); s != name && slices.Contains(table.names, strings.ToLower(s)) {
				return strings.ToLower(s)
			}
			return name
		}
		a, b := state(strings.Fields(line[from:])[0]), state(strings.Fields(line[to:])[0])
		if strings.HasPrefix(a, "(") || strings.HasPrefix(b, "(") || b == "over" {
			continue
		}
		require.Contains(t, table.names, b, line)
		if a != "any" {
			require.Contains(t, table.names, a, line)
			lines = append(lines, a+" to "+b)
			continue
		}
		for _, name := range table.names {
			if name != b {
				lines = append(lines, name+" to "+b)
			}
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}
