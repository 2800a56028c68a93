package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const output = `goos: linux
BenchmarkX/workers=8/by=pool-2         	  300000	       40.00 ns/op	         1.000 ×pool	       0 allocs/op
BenchmarkX/workers=8/by=interlock-2    	  300000	       120.0 ns/op	         3.000 ×pool	       0 allocs/op
BenchmarkX/workers=128/by=pool-2       	  300000	       50.00 ns/op	         1.000 ×pool	       0 allocs/op
BenchmarkX/workers=128/by=interlock-2  	  300000	       12345 ns/op	         3.500 ×pool	       1 allocs/op
PASS
ok  	github.com/interlock-go/interlock/bench	2.325s
`

func TestTable(t *testing.T) {
	var tab table
	require.NoError(t, tab.read(output))
	require.NoError(t, tab.read(strings.ReplaceAll(output, "40.00", "60.00")))
	require.NoError(t, tab.read(strings.ReplaceAll(output, "40.00", "41.00")))
	var text strings.Builder
	tab.write(&text)
	require.Equal(t, `| workers | by | ns/op | ×pool | allocs/op |
| --- | --- | ---: | ---: | ---: |
| 8 | pool | 41 | 1 | 0 |
| 8 | interlock | 120 | 3 | 0 |
| 128 | pool | 50 | 1 | 0 |
| 128 | interlock | 12345 | 3.5 | 1 |
`, text.String())
	require.Error(t, tab.read("BenchmarkX-2 1 fast ns/op"))
}

func TestPlot(t *testing.T) {
	var tab table
	require.NoError(t, tab.read(output))
	one, two := filepath.Join(t.TempDir(), "one.svg"), filepath.Join(t.TempDir(), "two.svg")
	require.NoError(t, tab.plot("The cost", "×pool", one))
	require.NoError(t, tab.plot("The cost", "×pool", two))
	picture, err := os.ReadFile(one)
	require.NoError(t, err)
	for _, want := range []string{"The cost", "time, in times of pool", "interlock", "workers 128"} {
		require.Contains(t, string(picture), want)
	}
	again, err := os.ReadFile(two)
	require.NoError(t, err)
	require.Equal(t, picture, again, "the same numbers give the same picture")
}

// What is not there does not cost the results that are.
func TestNoSuchBenchmark(t *testing.T) {
	require.ErrorContains(t, run(1, "Nonsense", t.TempDir(), ""), `-only "Nonsense": no benchmark has such a name`)
	require.ErrorContains(t, run(0, "", t.TempDir(), ""), "-rounds is 0")
}

// Every benchmark of the list is there.
func TestComparisons(t *testing.T) {
	for _, c := range comparisons {
		files, err := filepath.Glob(filepath.Join("../..", c.pkg, "*_test.go"))
		require.NoError(t, err)
		found := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			found = found || strings.Contains(string(text), "func Benchmark"+c.bench+"(b *testing.B)")
		}
		require.True(t, found, "%s has no benchmark %s", c.pkg, c.bench)
	}
}
