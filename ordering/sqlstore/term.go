package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// reader implements [ordering.Reader].
type reader struct {
	store *Store
	name  string // of the consumer
}

// term implements [ordering.Term].
type term struct {
	reader
	termOf
}

// termOf is a term as stored in the tables.
type termOf struct {
	info     *ordering.TermInfo
	consumer int64 // the key of its name
}

// Info implements [ordering.Term].
func (t *term) Info() ordering.TermInfo { return *t.info }

// consumers caches the keys of consumers' names.
type consumers struct {
	mu struct {
		sync.Mutex
		keys map[string]int64
	}
}

func (c *consumers) get(name string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.keys[name]
}

func (c *consumers) put(name string, key int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.keys == nil {
		c.mu.keys = map[string]int64{}
	}
	c.mu.keys[name] = key
}

// consumer returns the key of a consumer's name, or 0 if no term of it was ever
// begun.
func (s *Store) consumer(ctx context.Context, name string) (key int64, err error) {
	if key = s.consumers.get(name); key != 0 {
		return key, nil
	}
	err = each(ctx, s.db, func(scan func(...any) error) error { return scan(&key) },
		`SELECT id FROM ordering_consumers WHERE name = $1`, clean(name))
	if key != 0 {
		s.consumers.put(name, key)
	}
	return key, err
}

// termOf finds the term of a record.
func (s *Store) termOf(ctx context.Context, info *ordering.TermInfo) (termOf, error) {
	key, err := s.consumer(ctx, info.Name)
	if err == nil && key == 0 {
		err = &ordering.LostError{Term: true, Known: uint64(info.Number)}
	}
	return termOf{info, key}, err
}

// Begin implements [ordering.Store].
func (s *Store) Begin(ctx context.Context, c ordering.Consumer) (ordering.Term, error) {
	c, err := c.WithDefaults()
	if err != nil {
		return nil, err
	}
	if err := s.enterToWrite(ctx); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	t := termOf{info: &ordering.TermInfo{Consumer: c}}
	err = s.backend.begin(ctx, &t)
	if err != nil {
		return nil, storeError("begin a term", err)
	}
	s.consumers.put(c.Name, t.consumer)
	return &term{reader{s, c.Name}, t}, nil
}

// begin begins a term in a transaction, during which no write of the previous
// term is under way.
func (t *termOf) begin(ctx context.Context, tx *transaction) error {
	before, err := t.current(ctx, tx)
	if err != nil {
		return err
	}
	now := time.Now()
	t.info.Number, t.info.Token, t.info.Since = 1, max(t.info.Token, now.UnixMicro()), fromMicros(toMicros(now))
	if before != nil {
		t.info.Number, t.info.Token = before.number+1, max(t.info.Token, before.token+1)
		t.info.Previous = &ordering.PreviousTerm{Holder: before.holder, Since: fromMicros(before.since), Ended: before.ended != 0}
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO ordering_terms (consumer, part, number, token, holder, since, ended) VALUES ($1, $2, $3, $4, $5, $6, 0)
		ON CONFLICT (consumer, part) DO UPDATE SET number = excluded.number, token = excluded.token, holder = excluded.holder, since = excluded.since, ended = 0`,
		t.consumer, t.info.Partition, t.info.Number, t.info.Token, t.info.Holder, toMicros(now))
	return err
}

// name finds the key of the consumer's name, or makes one for a new name.
func (t *termOf) name(ctx context.Context, tx *transaction) error {
	if _, err := tx.ExecContext(ctx, `INSERT INTO ordering_consumers (name) VALUES ($1) ON CONFLICT (name) DO NOTHING`, t.info.Name); err != nil {
		return err
	}
	return each(ctx, tx, func(scan func(...any) error) error { return scan(&t.consumer) },
		`SELECT id FROM ordering_consumers WHERE name = $1`, t.info.Name)
}

// termRow is a row of the table of terms: the latest of a partition.
type termRow struct {
	number, token, since, ended int64
	holder                      string
}

// current returns the latest term of the same partition, or nil if there is
// none.
func (t *termOf) current(ctx context.Context, db queryer) (row *termRow, err error) {
	err = each(ctx, db, func(scan func(...any) error) error {
		row = &termRow{}
		return scan(&row.number, &row.token, &row.holder, &row.since, &row.ended)
	}, `SELECT number, token, holder, since, ended FROM ordering_terms WHERE consumer = $1 AND part = $2`, t.consumer, t.info.Partition)
	return row, err
}

// check returns an error unless row, the latest of the same partition, is that
// of the term, and the term has not ended.
func (t *termOf) check(row *termRow) error {
	switch {
	case row == nil:
		return &ordering.LostError{Term: true, Known: uint64(t.info.Number)}
	case row.number < t.info.Number:
		return &ordering.LostError{Term: true, Known: uint64(t.info.Number), Has: uint64(row.number)}
	case row.number != t.info.Number || row.token != t.info.Token || row.ended != 0:
		by := ordering.Consumer{Name: t.info.Name, Partition: t.info.Partition, Holder: row.holder}
		return &ordering.TakenOverError{Consumer: by, Since: fromMicros(row.since), Ended: row.token == t.info.Token}
	}
	return nil
}

// errNotInTerm is the error of a read in a term that has ended, until the
// reason is known.
var errNotInTerm = errors.New("sqlstore: the term is over")

// isOver returns the error that says why the term has ended.
func (t *termOf) isOver(ctx context.Context, db queryer) error {
	row, err := t.current(ctx, db)
	if err == nil {
		err = t.check(row)
	}
	if err == nil {
		err = fmt.Errorf("%w: another program has opened the database", ordering.ErrFenced)
	}
	return err
}

// fenced returns the error that says why a token is not that of a stream's
// holder.
func (t *termOf) fenced(ctx context.Context, db queryer, stream string, token int64) error {
	err := fmt.Errorf("%w: stream %s, token %d", ordering.ErrFenced, stream, token)
	if token <= 0 {
		return err
	}
	taken := &ordering.TakenOverError{Consumer: ordering.Consumer{Name: t.info.Name}}
	var fence, since int64
	failed := each(ctx, db, func(scan func(...any) error) error { return scan(&fence, &taken.Partition, &taken.Holder, &since) },
		`SELECT s.fence, s.part, t.holder, t.since FROM ordering_streams s JOIN ordering_terms t ON t.consumer = s.consumer AND t.part = s.part
		WHERE s.consumer = $1 AND s.stream = $2`, t.consumer, stream)
	if failed != nil || fence <= token {
		return err
	}
	key, failed := lockkeys.Parse(stream)
	if failed != nil {
		return err
	}
	taken.Stream, taken.Since = &key, fromMicros(since)
	return taken
}

// End implements [ordering.Term].
func (t *term) End(ctx context.Context) error {
	return t.store.write(ctx, "end a term", func(ctx context.Context, tx *transaction) error {
		if err := t.store.backend.toChange(ctx, tx, t.termOf); err != nil {
			return err
		}
		row, err := t.current(ctx, tx)
		if err != nil {
			return err
		}
		if row != nil && row.number == t.info.Number && row.token == t.info.Token && row.ended != 0 {
			return nil
		}
		if err := t.check(row); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE ordering_terms SET ended = 1 WHERE consumer = $1 AND part = $2`, t.consumer, t.info.Partition)
		return err
	})
}

// write runs do in a transaction of the store's own, if the term has not ended.
func (t *term) write(ctx context.Context, op string, do step) error {
	return t.store.write(ctx, op, func(ctx context.Context, tx *transaction) error {
		if err := t.store.backend.inTerm(ctx, tx, t.termOf); err != nil {
			return err
		}
		return do(ctx, tx)
	})
}
