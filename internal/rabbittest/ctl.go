package rabbittest

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const callLimit = 2 * time.Minute // rabbitmqctl takes two seconds

// RaiseAlarm makes the node believe that its memory is full: it no longer reads
// from connections that publish, until ClearAlarm. Connections that are open know
// when RaiseAlarm returns, so that the next message each of them publishes is held.
func (n *Node) RaiseAlarm() error { return n.setMemory("0.0") }

// ClearAlarm ends the alarm; a restart does too.
func (n *Node) ClearAlarm() error { return n.setMemory("0.4") }

func (n *Node) setMemory(watermark string) error {
	// An alarm is told to connections after the call that raises it has returned;
	// get_alarms waits for that.
	_, err := n.Eval("vm_memory_monitor:set_vm_memory_high_watermark(" + watermark + "), rabbit_alarm:get_alarms()")
	return err
}

// Sync makes declarations, bindings and deletions so far survive Kill. A killed
// node loses some that are a few seconds old, even a queue with all its confirmed
// messages: the decision of a transaction may be written that late, and one without
// a decision counts as rolled back; and so may the list of its quorum queues (a
// table of the library ra), and one that is not in it is never started.
func (n *Node) Sync() error {
	_, err := n.Eval("mnesia:sync_log(), [dets:sync(T) || T <- dets:all()]")
	return err
}

// Count returns the number of messages of a quorum queue at this instant, including
// unacknowledged ones. The numbers of rabbitmqctl are up to five seconds old.
func (n *Node) Count(queue string) (int, error) {
	return n.ask(queue, "query_messages_total")
}

// Consumers returns the number of consumers of a quorum queue at this instant,
// including those that stand by.
func (n *Node) Consumers(queue string) (int, error) {
	return n.ask(queue, "query_consumer_count")
}

// ask returns the answer of the state machine of a quorum queue to a question.
func (n *Node) ask(queue, question string) (int, error) {
	text, err := n.Eval(fmt.Sprintf(`{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"%s">>)),
		{ok, {_, N}, _} = ra:leader_query(amqqueue:get_pid(Q), fun rabbit_fifo:%s/1), N`, queue, question))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// Eval evaluates Erlang expressions, separated by commas, in the node and returns
// the value of the last one, as Erlang prints it. It takes a few hundredths of the
// time of Ctl.
func (n *Node) Eval(expressions string) (string, error) {
	text, err := n.output(expressions+".\n", "erl_call", "-address", n.ports.Addr(1), "-c", cookie, "-R", "-e")
	if err != nil {
		return "", err
	}
	value, evaluated := strings.CutPrefix(strings.TrimSpace(text), "{ok, ")
	if !evaluated {
		return "", fmt.Errorf("rabbittest: %s: %s", expressions, text)
	}
	return strings.TrimSuffix(value, "}"), nil
}

// Ctl runs rabbitmqctl and returns its output. It takes up to two seconds on an
// idle machine.
func (n *Node) Ctl(args ...string) (string, error) {
	return n.output("", filepath.Join(n.bin, "rabbitmqctl"), append([]string{"-q"}, args...)...)
}

// output runs a command with the given input and returns its output.
func (n *Node) output(input, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	c := n.command(ctx, name, args...)
	c.Stdin = strings.NewReader(input)
	c.WaitDelay = time.Second
	text, err := c.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("rabbittest: %s %v: %w: %s", filepath.Base(name), args, err, text)
	}
	return string(text), nil
}
