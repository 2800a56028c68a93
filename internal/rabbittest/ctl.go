package rabbittest

import (
	"context"
	"fmt"
	"path/filepath"
	"time"
)

// RaiseAlarm makes the node believe that its memory is full: it no longer reads
// from connections that publish, until ClearAlarm.
func (n *Node) RaiseAlarm() error { return n.setMemory("0") }

// ClearAlarm ends the alarm; a restart does too.
func (n *Node) ClearAlarm() error { return n.setMemory("0.4") }

func (n *Node) setMemory(watermark string) error {
	_, err := n.Ctl("set_vm_memory_high_watermark", watermark)
	return err
}

// Sync makes what was declared, bound and deleted so far survive Kill. A node
// that is killed forgets some of what is less than two seconds old, a queue with
// all the confirmed messages in it: how a transaction was decided may be
// written that late, and one with no decision counts as undone.
func (n *Node) Sync() error {
	_, err := n.Ctl("eval", "mnesia:sync_log().")
	return err
}

// Ctl runs rabbitmqctl and returns what it prints. It takes up to two
// seconds.
func (n *Node) Ctl(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := n.command(ctx, filepath.Join(n.bin, "rabbitmqctl"), append([]string{"-q"}, args...)...)
	c.WaitDelay = time.Second
	text, err := c.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("rabbittest: rabbitmqctl %v: %w: %s", args, err, text)
	}
	return string(text), nil
}
