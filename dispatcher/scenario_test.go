package dispatcher_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "write what the scenarios give into their files")

// TestScenarios runs the stories in testdata/scenarios. A story is a list of
// commands, one a line, each followed by "----" and what happened because of
// it: the events that the observer was told, in order, and then the command's
// own answer. Lines that start with "#" are for the reader. With -rewrite the
// files are written anew.
//
//	new [workers=N] [policy=head-only|look-ahead] [window=N] [attempts=N]
//	    [failure=dead-letter|park|stop] [batch=N] [max-parked=N]
//	    starts a dispatcher. Default: 2 workers, look-ahead, 1 attempt. A
//	    failed attempt is followed by the next after 100ms, 200ms, 400ms.
//	submit NAME [KEY...]   submits a message; "~KEY" is shared, "/" the root
//	finish NAME            lets the handler of NAME succeed
//	fail NAME [for-good]   lets it fail, or fail permanently
//	panic NAME             lets it panic
//	widen NAME KEY...      lets it ask for more keys
//	release NAME KEY...    lets it give keys back, and go on
//	hold NAME              lets it return with its message held; finish, fail and
//	                       widen then end the hold
//	wait DURATION          lets time pass
//	resume|skip|drop NAME  decides about a parked message
//	parked                 lists the parked messages
//	state                  shows who holds what and who waits for whom
//	drain                  tells whether nothing is left to wait for
//	shutdown [LIMIT]       shuts down, within the limit (default: 1s)
//	reset                  closes the dispatcher; fails if anything is left
//
// With batch=N a handler is given several messages and goes through them in
// order, up to the first that fails.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/scenarios/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			var got string
			synctest.Test(t, func(t *testing.T) { got = tell(t, string(text)) })
			if *rewrite {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
			}
			require.Equal(t, string(text), got)
		})
	}
}

// tell carries the commands of a story out and returns it as it should read.
func tell(t *testing.T, text string) string {
	s := &story{t: t, jobs: make(map[string]*job), orders: make(map[string]chan order), held: make(map[string]func(error))}
	defer s.close()
	var out strings.Builder
	skipping := false // what the story says happened
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "----":
			skipping = true
		case line == "":
			skipping = false
			out.WriteString("\n")
		case skipping:
		case strings.HasPrefix(line, "#"):
			out.WriteString(line + "\n")
		default:
			out.WriteString(line + "\n----\n")
			words := strings.Fields(line)
			answer := s.do(words[0], words[1:])
			for _, l := range append(s.happened(), answer...) {
				out.WriteString(l + "\n")
			}
		}
	}
	return out.String()
}
