package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/internal/sqldb"
	"github.com/interlock-go/interlock/ordering"
)

// Operator is a [ReadOnly] for a person who decides what becomes of parked events, beside
// the process that works on the store. It changes nothing itself but leaves requests in the
// store, see [ordering.Request]: the process carries them out, or the next one, if none
// is there. Packages sqlite and postgres open one. Its methods are safe for concurrent use.
type Operator struct {
	*ReadOnly
	writes *sql.DB
}

// NewOperator returns the Operator of a database, by connections that only read, and by
// others, both of which are closed with it. The error is that of [NewReadOnly].
func NewOperator(ctx context.Context, reads, writes *sql.DB, dialect sqldb.Dialect) (*Operator, error) {
	r, err := NewReadOnly(ctx, reads, dialect)
	if err != nil {
		return nil, errors.Join(err, writes.Close())
	}
	return &Operator{r, writes}, nil
}

// Close closes the database. Requests stay.
func (o *Operator) Close() error { return errors.Join(o.ReadOnly.Close(), o.writes.Close()) }

// ErrNoConsumer is wrapped by the error for a consumer that has never worked on the store.
var ErrNoConsumer = errors.New("sqlstore: no such consumer")

// ErrUnsigned is the error of a request without an operator or a reason.
var ErrUnsigned = errors.New("sqlstore: a request must say who makes it and why: give both by dispatcher.WithOperator")

// Ask leaves a request for a consumer's term, "" for "default", and returns it. Who asks,
// and why, is in ctx, see [dispatcher.WithOperator]; without either the error is
// [ErrUnsigned]. The actions are those of the Act of whatever works in the
// term, and the targets those of its View: for a sequencer Resume, Skip and Drop of a
// parking. If that is not as it was seen by the time, nothing is done, and the request's
// Error says so.
//
// Other errors wrap [ErrNoConsumer] or [view.ErrAction], or are of the database.
func (o *Operator) Ask(ctx context.Context, consumer string, a view.Action) (r ordering.Request, err error) {
	if err := o.store.enter(ctx); err != nil {
		return r, err
	}
	defer o.store.gate.leave()
	r = ordering.Request{Consumer: consumer, Action: a, Made: fromMicros(toMicros(time.Now()))}
	if r.Consumer == "" {
		r.Consumer = ordering.DefaultConsumer
	}
	if r.By, r.Reason = dispatcher.OperatorOf(ctx); r.By == "" || r.Reason == "" {
		return r, ErrUnsigned
	}
	if a.Name == "" || a.Target == "" {
		return r, fmt.Errorf("%w: name and target must be given: %+v", view.ErrAction, a)
	}
	key, err := o.store.consumer(ctx, r.Consumer)
	if err != nil {
		return r, storeError("ask", err)
	}
	if key == 0 {
		return r, o.noConsumer(ctx, r.Consumer)
	}
	stream := ""
	if at, _, err := ordering.ParseTarget(a.Target); err == nil {
		err := each(ctx, o.store.db, func(scan func(...any) error) error { return scan(&stream) },
			`SELECT stream FROM ordering_streams WHERE consumer = $1 AND stream = $2`, key, at.Stream.String())
		if err != nil {
			return r, storeError("ask", err)
		}
	}
	err = each(ctx, o.writes, func(scan func(...any) error) error { return scan(&r.ID) },
		`INSERT INTO ordering_requests (consumer, stream, action, target, decider, reason, made) VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id`,
		key, stream, clean(a.Name), clean(a.Target), clean(r.By), clean(r.Reason), toMicros(r.Made))
	return r, storeError("ask", err)
}

func (o *Operator) noConsumer(ctx context.Context, name string) error {
	known, err := o.Consumers(ctx)
	if err != nil {
		return err
	}
	for i, name := range known {
		known[i] = strconv.Quote(name)
	}
	return fmt.Errorf("%w: %.80q: the database has %s", ErrNoConsumer, name, strings.Join(known, ", "))
}

// Requests lists the requests to a consumer, or to all for "", newest first, limit at
// most. Those that have ended are kept as long as job states.
func (o *Operator) Requests(ctx context.Context, consumer string, limit int) (list []ordering.Request, err error) {
	return o.requests(ctx, `WHERE $1 IN ('', c.name) ORDER BY r.id DESC LIMIT $2`, consumer, limit)
}

func (o *Operator) requests(ctx context.Context, which string, args ...any) (list []ordering.Request, err error) {
	if err := o.store.enter(ctx); err != nil {
		return nil, err
	}
	defer o.store.gate.leave()
	err = each(ctx, o.store.db, func(scan func(...any) error) error {
		r, err := scanRequest(scan)
		list = append(list, r)
		return err
	}, `SELECT `+requestColumns+` FROM ordering_requests r JOIN ordering_consumers c ON c.id = r.consumer `+which, args...)
	return list, storeError("requests", err)
}

// Withdraw takes back a request that nobody has begun to carry out. The error wraps
// [ordering.ErrNoRequest] otherwise.
func (o *Operator) Withdraw(ctx context.Context, id int64) error {
	if err := o.store.enter(ctx); err != nil {
		return err
	}
	defer o.store.gate.leave()
	who, why := dispatcher.OperatorOf(ctx)
	text := "withdrawn by " + cmp.Or(who, "an operator")
	if why != "" {
		text += ": " + why
	}
	n, err := affected(o.writes.ExecContext(ctx, `UPDATE ordering_requests SET ended = $2, error = $3 WHERE id = $1 AND ended = 0 AND begun = 0`,
		id, toMicros(time.Now()), clean(text)))
	if err == nil && n == 0 {
		return fmt.Errorf("%w, or has been begun: %d", ordering.ErrNoRequest, id)
	}
	return storeError("withdraw", err)
}

// awaitInterval is how often a request is looked at.
const awaitInterval = 200 * time.Millisecond

// Await waits until a request has ended, and returns it. If ctx ends before, the request
// stays, and the error says so.
func (o *Operator) Await(ctx context.Context, id int64) (ordering.Request, error) {
	ticker := time.NewTicker(awaitInterval)
	defer ticker.Stop()
	for {
		list, err := o.requests(ctx, `WHERE r.id = $1`, id)
		switch {
		case err != nil && ctx.Err() == nil:
			return ordering.Request{}, err
		case err == nil && len(list) == 0:
			return ordering.Request{}, fmt.Errorf("%w: %d", ordering.ErrNoRequest, id)
		case err == nil && !list[0].Ended.IsZero():
			return list[0], nil
		}
		select {
		case <-ctx.Done():
			return ordering.Request{ID: id}, fmt.Errorf("request %d is not carried out yet, and stays: %w; see who works on the store, or withdraw it", id, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// Of returns what can be seen of a consumer, "" for "default", and acted on by requests:
// for the page of package inspect. Its Act asks, and awaits what becomes of it.
func (o *Operator) Of(consumer string) view.Operated {
	if consumer == "" {
		consumer = ordering.DefaultConsumer
	}
	return o.With(consumer, stored{o, consumer})
}

// With is Of for a consumer whose term serves something else than a sequencer, that
// source shows: a saga.Reader, for example.
func (o *Operator) With(consumer string, source view.Source) view.Operated {
	return operated{source, o, consumer}
}

// stored is the source of what the store has for a consumer.
type stored struct {
	operator *Operator
	consumer string
}

// View implements [view.Source].
func (s stored) View(ctx context.Context, q view.Query) (view.View, error) {
	return ordering.ViewStored(ctx, s.operator.Reader(s.consumer), q), nil
}

// Payloads implements [view.Opener].
func (s stored) Payloads(ctx context.Context, target string) ([]view.Payload, error) {
	return ordering.PayloadsStored(ctx, s.operator.Reader(s.consumer), target)
}

// operated adds to a source the owners and the requests of a consumer, and acts by requests.
type operated struct {
	source   view.Source
	operator *Operator
	consumer string
}

// View implements [view.Source].
func (o operated) View(ctx context.Context, q view.Query) (view.View, error) {
	v, err := o.source.View(ctx, q)
	if err != nil {
		return v, err
	}
	terms, err := o.operator.Terms(ctx)
	if err != nil {
		return v, err
	}
	owners := view.Table{Name: "Owner", Columns: []string{"Consumer", "Partition", "Holder", "Term", "Since (UTC)"}}
	for _, t := range terms {
		if t.Name == o.consumer {
			owners.Rows = append(owners.Rows, view.Row{Cells: []string{t.Name, t.Partition, t.Holder, fmt.Sprint(t.Number), t.Since.UTC().Format(time.DateTime)}})
		}
	}
	if len(owners.Rows) == 0 {
		v.Problems = append(v.Problems, "nobody works on it: requests wait until somebody does")
	}
	list, err := o.operator.Requests(ctx, o.consumer, view.DefaultLimit)
	if err != nil {
		return v, err
	}
	requests := view.Table{Name: "Requests", Columns: []string{"Number", "What", "Target", "Who", "Why", "Made (UTC)", "State"}}
	for _, r := range list {
		requests.Rows = append(requests.Rows, view.Row{Cells: []string{fmt.Sprint(r.ID), r.Action.Name, r.Action.Target, r.By, r.Reason,
			r.Made.UTC().Format(time.DateTime), r.State()}})
	}
	v.Tables = append(v.Tables, owners, requests)
	return v, nil
}

// Payloads implements [view.Opener].
func (o operated) Payloads(ctx context.Context, target string) ([]view.Payload, error) {
	if opener, is := o.source.(view.Opener); is {
		return opener.Payloads(ctx, target)
	}
	return nil, fmt.Errorf("%w: the source has nothing to open", view.ErrAction)
}

// Act implements [view.Operated].
func (o operated) Act(ctx context.Context, a view.Action) error {
	r, err := o.operator.Ask(ctx, o.consumer, a)
	if err != nil {
		return err
	}
	if r, err = o.operator.Await(ctx, r.ID); err != nil {
		return err
	}
	if r.Error != "" {
		return errors.New(r.Error)
	}
	return nil
}
