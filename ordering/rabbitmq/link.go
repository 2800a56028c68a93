package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/dispatcher"
)

// link keeps a connection to a broker: it dials, notices when the connection is
// lost, and dials again with back-off.
type link struct {
	dial          Dialer
	topology      Topology
	answerTimeout time.Duration
	backoff       dispatcher.Backoff
	logger        *slog.Logger

	lost      atomic.Pointer[error] // why there is no connection; nil while there is one, or before the first attempt
	blocked   atomic.Bool           // the broker accepts no messages: it is short of memory or disk
	unblocked func()                // called after blocked became false, if set; must not block

	// Only for the goroutine in run.
	declared bool      // the topology was declared once
	away     time.Time // since when there is no connection; zero if there is one, or before the first failure
}

func newLink(e Endpoint) *link {
	return &link{
		dial: e.Dial, topology: e.Topology, answerTimeout: e.AnswerTimeout,
		backoff: e.Backoff, logger: e.Logger,
	}
}

// closeTimeout bounds closing while the broker does not answer.
const closeTimeout = 2 * time.Second

// run calls serve for each connection, one after the other, until ctx ends, and
// returns nil then. The context of serve ends with the connection, or with ctx;
// its cause says why. An error of serve is logged, and the next connection is made
// after a back-off, unless the error is a fatal, which ends run.
//
// The topology is declared before serve is called. If that fails for a permanent
// reason before it ever succeeded, run returns a [*TopologyError]. The connection
// is closed, within closeTimeout, when serve has returned. Logs have no URLs,
// which may contain passwords.
func (l *link) run(ctx context.Context, serve func(ctx context.Context, conn *amqp.Connection) error) error {
	failed := 0
	for ctx.Err() == nil {
		began := time.Now()
		err := l.connect(ctx, serve)
		l.lost.Store(&err)
		var end fatal
		if errors.As(err, &end) {
			return end.err
		}
		if ctx.Err() != nil {
			return nil
		}
		if l.away.IsZero() {
			l.away = time.Now()
		}
		lasted := time.Since(began)
		if lasted > l.backoff.Max {
			failed = 0
		}
		failed++
		wait := l.backoff.Wait(failed)
		var p pause
		if errors.As(err, &p) {
			wait = max(wait, p.wait)
		}
		l.logger.WarnContext(ctx, "rabbitmq: no connection", "lasted", lasted, "again_in", wait, "err", err)
		sleep(ctx, wait)
	}
	return nil
}

// connect makes a connection, and returns when it is lost.
func (l *link) connect(ctx context.Context, serve func(ctx context.Context, conn *amqp.Connection) error) error {
	conn, err := l.dial(ctx)
	if err != nil {
		return err
	}
	var watcher sync.WaitGroup
	defer watcher.Wait()
	defer closeConnection(conn)
	if conn.IsRecoveryEnabled() {
		return fatal{ErrRecovery}
	}
	alive, end := context.WithCancelCause(ctx)
	closed := conn.NotifyClose(make(chan *amqp.Error, 1))
	blockings := conn.NotifyBlocked(make(chan amqp.Blocking, 1))
	watcher.Go(func() {
		l.watchBlocking(blockings)
		end(closeReason(<-closed))
	})
	if err := l.declare(alive, conn); err != nil {
		return err
	}
	if !l.away.IsZero() {
		l.logger.InfoContext(ctx, "rabbitmq: connected again", "away", time.Since(l.away))
		l.away = time.Time{}
	}
	l.lost.Store(nil)
	if err := serve(alive, conn); err != nil {
		return err
	}
	return context.Cause(alive)
}

// why returns why there is no connection, or nil if that is unknown.
func (l *link) why() error {
	if err := l.lost.Load(); err != nil {
		return *err
	}
	return nil
}

// watchBlocking returns when the connection is closed.
func (l *link) watchBlocking(blockings <-chan amqp.Blocking) {
	for b := range blockings {
		switch changed := l.setBlocked(b.Active); {
		case changed && b.Active:
			l.logger.Warn("rabbitmq: the broker accepts no messages until it has more memory or disk", "reason", b.Reason)
		case changed:
			l.logger.Info("rabbitmq: the broker accepts messages again")
		}
	}
	l.setBlocked(false)
}

// setBlocked reports whether blocked has changed.
func (l *link) setBlocked(blocked bool) (changed bool) {
	changed = l.blocked.Swap(blocked) != blocked
	if changed && !blocked && l.unblocked != nil {
		l.unblocked()
	}
	return changed
}

// declare declares the topology, if there is any.
func (l *link) declare(ctx context.Context, conn *amqp.Connection) error {
	err := declare(ctx, l.answerTimeout, conn, l.topology)
	if err != nil && !l.declared && !mayMend(err) {
		return fatal{err}
	}
	l.declared = l.declared || err == nil
	return err
}

// declare declares a topology on a channel of its own. atMost bounds each
// declaration.
func declare(ctx context.Context, atMost time.Duration, conn *amqp.Connection, t Topology) (err error) {
	if t.isEmpty() {
		return nil
	}
	call := func(one func() error) error { return answered(ctx, atMost, conn, one) }
	var ch *amqp.Channel
	err = call(func() (err error) {
		ch, err = conn.Channel()
		return err
	})
	if err != nil {
		return fmt.Errorf("rabbitmq: opening a channel: %w", err)
	}
	if err := t.declare(ch, call); err != nil {
		return err
	}
	return call(ch.Close)
}

// errNoAnswer: a quorum queue without a leader, for example, may never answer,
// though the connection is alive.
var errNoAnswer = errors.New("rabbitmq: the broker did not answer within AnswerTimeout")

// answered makes calls of the client, which do not take a context. When ctx
// ends, or the broker takes too long, the connection is closed, which ends them.
func answered(ctx context.Context, atMost time.Duration, conn *amqp.Connection, calls func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, atMost, errNoAnswer)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { closeConnection(conn) })
	err := calls()
	if !stop() {
		return errors.Join(context.Cause(ctx), err)
	}
	return err
}

// closeConnection closes a connection, at once if the broker does not answer
// within closeTimeout. On a closed one it does nothing.
func closeConnection(conn *amqp.Connection) {
	_ = conn.CloseDeadline(time.Now().Add(closeTimeout))
}

// errUnreadable: the sieve of [Dial] would have removed the header.
var errUnreadable = errors.New("rabbitmq: the client cannot read a message, for example because its headers are nested too deep: connect with Dial of this package")

// closeReason returns why a connection or a channel was closed.
func closeReason(err *amqp.Error) error {
	switch {
	case err == nil:
		return amqp.ErrClosed
	case !err.Server && strings.Contains(err.Reason, amqp.ErrSyntax.Reason):
		return because(errUnreadable, err)
	}
	return err
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
