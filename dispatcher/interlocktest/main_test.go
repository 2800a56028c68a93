package interlocktest

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// failing reports whether this process is to run a test that fails.
var failing = os.Getenv("INTERLOCKTEST_FAILING") != ""

// failingTest runs a test of this package that fails, in another process, and returns
// what it prints.
func failingTest(t *testing.T, name string, args ...string) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, append([]string{"-test.run", "^" + name + "$"}, args...)...)
	cmd.Env = append(os.Environ(), "INTERLOCKTEST_FAILING=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "%s", out)
	return string(out)
}
