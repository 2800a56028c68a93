package rabbittest_test

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/rabbittest"
)

const childEnv = "RABBITTEST_CHILD"

// child starts a node, says so and waits for its own end.
func child() {
	if _, err := rabbittest.New(); err != nil {
		log.Fatal(err)
	}
	fmt.Println("started")
	select {}
}

func TestCloseLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	n, err := rabbittest.New()
	require.NoError(t, err)
	require.NotEmpty(t, left(dir))
	require.NoError(t, n.Close())
	requireNothingLeft(t, dir)
	require.NoError(t, n.Close(), "again")
	require.ErrorContains(t, n.Restart(), "closed")
	require.Error(t, n.Kill())
}

func TestAKilledTestLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childEnv+"=1", "TMPDIR="+dir)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.NotEmpty(t, left(dir))
	require.NoError(t, c.Process.Kill())
	require.Error(t, c.Wait())
	requireNothingLeft(t, dir)
}

func requireNothingLeft(t *testing.T, dir string) {
	t.Helper()
	require.Eventually(t, func() bool { return len(left(dir)) == 0 }, 5*time.Minute, 10*time.Millisecond)
}

// left returns the files in a folder and the processes that live in one of them.
func left(dir string) []string {
	found, _ := filepath.Glob(dir + "/*")
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		env, _ := os.ReadFile(p + "/environ") // those of other users are not readable
		if strings.Contains(string(env), "HOME="+dir+"/") {
			found = append(found, p)
		}
	}
	return found
}
