package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
)

// committer is the one writer of a database. It takes the changes of all
// messages that wait for it, writes them in one transaction, and answers all
// of them: a flush to the disk costs the same for one message as for many.
// While it waits for the disk the next ones gather.
type committer struct {
	db    *sql.DB
	conn  *sql.Conn
	queue chan *pending
	stop  chan struct{}
	done  chan struct{}
	end   sync.Once // closes stop

	statements   statements
	dataVersion  int64
	transactions atomic.Int64
	messages     atomic.Int64
}

type statements struct {
	begin, commit, rollback, version *sql.Stmt
	state, balance, journal, closing *sql.Stmt
}

// pending is the changes of one message on their way to the disk.
type pending struct {
	changes *book.Changes
	message []byte
	result  chan error
}

// maxGroup bounds the messages in one transaction, and so how long the first
// of them waits for the last.
const maxGroup = 512

var errStoreClosed = errors.New("store: closed")

// startCommitter starts a committer; it closes db in the end if it returns no
// error.
func startCommitter(ctx context.Context, db *sql.DB) (*committer, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	c := &committer{db: db, conn: conn, queue: make(chan *pending, maxGroup),
		stop: make(chan struct{}), done: make(chan struct{})}
	if err := c.prepare(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if c.dataVersion, err = c.version(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	go c.run()
	return c, nil
}

func (c *committer) prepare(ctx context.Context) error {
	s := &c.statements
	for _, p := range []struct {
		statement **sql.Stmt
		text      string
	}{
		{&s.begin, `BEGIN IMMEDIATE`},
		{&s.commit, `COMMIT`},
		{&s.rollback, `ROLLBACK`},
		{&s.version, `PRAGMA data_version`},
		{&s.state, `INSERT INTO accounts (account, state) VALUES (?, ?)
			ON CONFLICT (account) DO UPDATE SET state = excluded.state`},
		{&s.balance, `INSERT INTO balances (account, commodity, amount) VALUES (?, ?, ?)
			ON CONFLICT (account, commodity) DO UPDATE SET amount = excluded.amount`},
		{&s.journal, `INSERT INTO journal (seq, message) VALUES (?, ?)`},
		{&s.closing, `INSERT INTO closings (seq, commodity, total) VALUES (?, ?, ?)`},
	} {
		statement, err := c.conn.PrepareContext(ctx, p.text)
		if err != nil {
			return err
		}
		*p.statement = statement
	}
	return nil
}

// version tells whether other connections have changed the database: then it
// is not the same as the last time.
func (c *committer) version(ctx context.Context) (version int64, err error) {
	err = c.statements.version.QueryRowContext(ctx).Scan(&version)
	return version, err
}

func (c *committer) commit(ctx context.Context, changes *book.Changes) error {
	message, err := json.Marshal(changes.Message)
	if err != nil {
		return err
	}
	p := &pending{changes, message, make(chan error, 1)}
	select {
	case c.queue <- p:
	case <-c.stop:
		return errStoreClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-p.result:
		return err
	case <-c.done:
	}
	select { // it may have been answered last of all
	case err := <-p.result:
		return err
	default:
		return errStoreClosed
	}
}

func (c *committer) run() {
	defer close(c.done)
	for {
		select {
		case p := <-c.queue:
			c.write(c.gather(p))
		case <-c.stop:
			return
		}
	}
}

// gather returns first and those that wait behind it.
func (c *committer) gather(first *pending) []*pending {
	group := []*pending{first}
	for len(group) < maxGroup {
		select {
		case p := <-c.queue:
			group = append(group, p)
		default:
			return group
		}
	}
	return group
}

func (c *committer) write(group []*pending) {
	err := c.transaction(context.Background(), group)
	if err == nil {
		c.transactions.Add(1)
		c.messages.Add(int64(len(group)))
	}
	for _, p := range group {
		p.result <- err
	}
}

func (c *committer) transaction(ctx context.Context, group []*pending) (err error) {
	if _, err := c.statements.begin.ExecContext(ctx); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, rollback := c.statements.rollback.ExecContext(ctx)
			err = errors.Join(err, rollback)
		}
	}()
	version, err := c.version(ctx)
	if err != nil {
		return err
	}
	if version != c.dataVersion {
		return errors.New("store: another program has changed the database: stop it, and start again")
	}
	for _, p := range group {
		if err := c.apply(ctx, p); err != nil {
			return fmt.Errorf("store: journal entry %d: %w", p.changes.Seq, err)
		}
	}
	_, err = c.statements.commit.ExecContext(ctx)
	return err
}

func (c *committer) apply(ctx context.Context, p *pending) error {
	for account, state := range p.changes.States {
		if _, err := c.statements.state.ExecContext(ctx, string(account), int(state)); err != nil {
			return err
		}
	}
	for h, amount := range p.changes.Balances {
		if _, err := c.statements.balance.ExecContext(ctx, string(h.Account), string(h.Commodity), book.Amount{Decimal: amount}.String()); err != nil {
			return err
		}
	}
	for _, m := range p.changes.Closing {
		if _, err := c.statements.closing.ExecContext(ctx, int64(p.changes.Seq), string(m.Commodity), m.Amount.String()); err != nil {
			return err
		}
	}
	_, err := c.statements.journal.ExecContext(ctx, int64(p.changes.Seq), string(p.message))
	return err
}

func (c *committer) stats() Stats {
	return Stats{Commits: c.transactions.Load(), Messages: c.messages.Load()}
}

// close waits for the transaction that is being written, refuses what has not
// begun, and closes the database.
func (c *committer) close() error {
	c.end.Do(func() { close(c.stop) })
	<-c.done
	return errors.Join(c.conn.Close(), c.db.Close())
}
