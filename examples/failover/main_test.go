package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The processes of the experiment are this program, which is the test here.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(beChild(os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// A short experiment: whatever becomes of the others, with Interlock every
// event has its effect once, in order, while the broker is killed.
func TestNothingIsLostDoubledOrOutOfOrder(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "picture.svg")
	var out, problems strings.Builder
	code := run(t.Context(), []string{
		"-runs", "1", "-events", "120", "-rounds", "2", "-round", "5", "-kill-min", "40", "-kill-max", "45", "-plot", picture,
	}, &out, &problems)
	require.Equal(t, exitGood, code, out.String()+problems.String())
	for _, says := range []string{
		"all delivered: 120 of 120 events", "all in order: 120 of 120", "nothing twice: 0 duplicates applied", "published base",
	} {
		require.Contains(t, out.String(), says)
	}
	require.NotContains(t, out.String(), "no outages")

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
	t.Log(out.String())
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
	var out, help strings.Builder
	require.Equal(t, exitGood, run(t.Context(), []string{"-h"}, &out, &help))
	require.Contains(t, help.String(), "Usage: failover")
}
