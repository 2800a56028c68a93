package main

import (
	"database/sql"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/examples/failover/internal/experiment"
)

// The processes of the experiment are this program, which is the test here.
func TestMain(m *testing.M) {
	if os.Getenv(experiment.ChildVariable) != "" {
		os.Exit(beChild(os.Stdin, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

// A short experiment: whatever becomes of the others, with Interlock every
// event has its effect once, in order, while the broker is killed.
func TestNothingIsLostDoubledOrOutOfOrder(t *testing.T) {
	const events, rounds, round = 80, 1, 5
	dir := t.TempDir()
	picture := filepath.Join(dir, "picture.svg")
	var out, problems strings.Builder
	code := run(t.Context(), []string{
		"-runs", "1", "-events", strconv.Itoa(events), "-rounds", strconv.Itoa(rounds), "-round", strconv.Itoa(round),
		"-kill-min", "25", "-kill-max", "30", "-plot", picture, "-dir", dir,
	}, &out, &problems)
	require.Equal(t, exitGood, code, out.String()+problems.String())
	for _, says := range []string{
		"all delivered: 80 of 80 events", "all in order: 80 of 80", "nothing twice: 0 duplicates applied", "published base",
	} {
		require.Contains(t, out.String(), says)
	}
	require.NotContains(t, out.String(), "no outages")
	requireOnceInOrder(t, filepath.Join(dir, "interlock", "consumer.db"), events+2*(rounds+1)*round) // two comparisons, each with a round for warming up
	requireXML(t, picture)
	t.Log(out.String())
}

// requireOnceInOrder looks at the effects themselves: those of each key have
// the numbers 1, 2, 3 and so on.
func requireOnceInOrder(t *testing.T, database string, events int) {
	t.Helper()
	db, err := sql.Open("sqlite", database)
	require.NoError(t, err)
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), `SELECT key, number FROM effects ORDER BY id`)
	require.NoError(t, err)
	defer rows.Close()
	last, effects := map[int]int{}, 0
	for rows.Next() {
		var key, number int
		require.NoError(t, rows.Scan(&key, &number))
		last[key]++
		effects++
		require.Equal(t, last[key], number, "key %d", key)
	}
	require.NoError(t, rows.Err())
	require.Equal(t, events, effects)
}

func requireXML(t *testing.T, picture string) {
	t.Helper()
	f, err := os.Open(picture)
	require.NoError(t, err)
	defer f.Close()
	elements := 0
	for decoder := xml.NewDecoder(f); ; elements++ {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	require.Greater(t, elements, 100)
}

func TestCommandLine(t *testing.T) {
	for says, args := range map[string][]string{
		"flag provided but not defined": {"-nonsense"},
		"kill-max":                      {"-kill-min", "50", "-kill-max", "40"},
		"events":                        {"-events", "0"},
		"queue":                         {"-queue", "stream"},
	} {
		var out, problems strings.Builder
		require.Equal(t, exitUsage, run(t.Context(), args, &out, &problems), args)
		require.Contains(t, problems.String(), says)
	}
	var early, why strings.Builder
	require.Equal(t, exitBad, run(t.Context(), []string{"-plot", filepath.Join(t.TempDir(), "missing", "x.svg")}, &early, &why))
	require.Contains(t, why.String(), "no such file or directory")
	require.Empty(t, early.String(), "before the experiment, not after it")
	var out, help strings.Builder
	require.Equal(t, exitGood, run(t.Context(), []string{"-h"}, &out, &help))
	require.Contains(t, help.String(), "Usage: failover")
}
