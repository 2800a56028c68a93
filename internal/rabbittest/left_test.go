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
	t.Setenv("TMPDIR", t.TempDir())
	n, err := rabbittest.New()
	require.NoError(t, err)
	require.NotEmpty(t, left(t, os.TempDir()))
	require.NoError(t, n.Close())
	require.Empty(t, left(t, os.TempDir()))
	require.NoError(t, n.Close(), "again")
	require.ErrorContains(t, n.Restart(), "closed")
	require.Error(t, n.Kill())
}

func TestAKilledTestLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childEnv+"=1", "TMPDIR="+dir)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.NotEmpty(t, left(t, dir))
	require.NoError(t, c.Process.Kill())
	require.Error(t, c.Wait())
	require.Eventually(t, func() bool { return len(left(t, dir)) == 0 }, 10*time.Second, 10*time.Millisecond)
}

// left returns the files in a folder and the processes that have it in their
// environment.
func left(t *testing.T, dir string) (found []string) {
	t.Helper()
	found, err := filepath.Glob(dir + "/*")
	require.NoError(t, err)
	processes, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	for _, p := range processes {
		env, _ := os.ReadFile(p + "/environ") // those of others are not readable
		if strings.Contains(string(env), "HOME="+dir+"/") {
			found = append(found, p)
		}
	}
	return found
}
