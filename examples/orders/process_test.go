package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// program is the shop, or one of its services, in a process of its own.
type program struct {
	command *exec.Cmd
	client
}

// start starts one and returns when it listens.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), programEnv+"=1")
	stderr, err := c.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	lines := bufio.NewReader(stderr)
	var said strings.Builder
	for {
		line, err := lines.ReadString('\n')
		said.WriteString(line)
		require.NoError(t, err, said.String())
		if _, url, is := strings.Cut(strings.TrimSpace(line), "listening on "); is {
			go func() { _, _ = io.Copy(io.Discard, lines) }()
			return &program{c, client{t, url, ""}}
		}
	}
}

// kill ends it with kill -9.
func (p *program) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, p.command.Process.Kill())
	require.Error(t, p.command.Wait())
}
