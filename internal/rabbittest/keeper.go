package rabbittest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// keeper starts the node at each line that it reads, answers with its process,
// and ends and removes everything when the pipe to it breaks, so also when the
// tests are killed. It has its own epmd, the names of Erlang's nodes.
const keeper = `epmd -port "$ERL_EPMD_PORT" -address 127.0.0.1 </dev/null >>log 2>&1 & epmd=$!
while read -r line; do
	"$0" </dev/null >>log 2>&1 & node=$!
	echo $node
done
kill -KILL $node $epmd
wait
rm -rf "$1"`

// keep starts the keeper.
func (n *Node) keep() (err error) {
	n.keeper = n.command(context.Background(), "/bin/sh", "-c", keeper, filepath.Join(n.bin, "rabbitmq-server"), n.dir)
	if n.mu.leash, err = n.keeper.StdinPipe(); err != nil {
		return err
	}
	if n.replies, err = n.keeper.StdoutPipe(); err != nil {
		return err
	}
	return n.keeper.Start()
}

// launchLocked makes the keeper start the node.
func (n *Node) launchLocked() (pid int, err error) {
	if _, err := io.WriteString(n.mu.leash, "start\n"); err != nil {
		return 0, err
	}
	_, err = fmt.Fscanln(n.replies, &pid)
	return pid, err
}

// command returns a command in the node's environment and in a process group of its
// own, which the terminal does not interrupt.
func (n *Node) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.SysProcAttr = n.dir, &syscall.SysProcAttr{Setpgid: true}
	in := func(name string) string { return filepath.Join(n.dir, name) }
	c.Env = []string{
		"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + n.dir, // where the cookie is
		"LANG=C.UTF-8", "LC_ALL=C.UTF-8",
		"ERL_EPMD_ADDRESS=127.0.0.1", fmt.Sprint("ERL_EPMD_PORT=", n.ports.Port(2)),
		"ERL_FLAGS=-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}",
		"ERL_CRASH_DUMP_SECONDS=0",
		"RUNNING_UNDER_SYSTEMD=true", // the script becomes the node
		"RABBITMQ_NODENAME=rabbit@localhost",
		fmt.Sprint("RABBITMQ_DIST_PORT=", n.ports.Port(1)),
		"RABBITMQ_MNESIA_BASE=" + in("data"),
		"RABBITMQ_LOG_BASE=" + in("logs"),
		"RABBITMQ_LOGS=-",
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + in("plugins"),
		"RABBITMQ_CONF_ENV_FILE=" + in("env.conf"),
		"RABBITMQ_CONFIG_FILE=" + in("rabbitmq.conf"),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + in("advanced.config"),
	}
	return c
}

// cookie is the password of the node for other programs of Erlang.
const cookie = "rabbittest"

// configure writes the node's configuration.
func (n *Node) configure(settings []string) error {
	lines := append([]string{
		"listeners.tcp.1 = " + n.addr(),
		"disk_free_limit.absolute = 1MB", // full disks are no part of the tests
	}, settings...)
	for name, text := range map[string]string{
		".erlang.cookie": cookie,
		"plugins":        "[].\n",
		"env.conf":       "",
		"rabbitmq.conf":  strings.Join(lines, "\n") + "\n",
	} {
		if err := os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o400); err != nil {
			return err
		}
	}
	return nil
}

// log returns the end of the node's log.
func (n *Node) log() []byte {
	text, _ := os.ReadFile(filepath.Join(n.dir, "log"))
	return bytes.TrimSpace(text[max(0, len(text)-8<<10):])
}

// runs reports whether a process has not ended. A zombie has, unless it still has
// other threads, and so its connections.
func runs(pid int) bool {
	proc := fmt.Sprintf("/proc/%d/", pid)
	text, err := os.ReadFile(proc + "stat")
	_, state, _ := strings.Cut(string(text), ") ")
	threads, _ := os.ReadDir(proc + "task")
	return err == nil && (len(threads) > 1 || !strings.HasPrefix(state, "Z"))
}
