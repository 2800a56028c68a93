package conductor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
)

// Result is what came of a convoy.
type Result struct {
	*Conductor
	records  Queryer     // the database
	refusals []string    // with reasons
	terms    []ownership // in order of the queues, and of time
	checks   []check
}

// check is something that must hold.
type check struct {
	text    string
	problem error // nil if it holds
}

// ownership is a term: a worker that was the owner of a queue.
type ownership struct {
	queue        int
	worker       string
	first, last  time.Time // the first run's begin, and the last one's end
	transactions int       // runs that had an effect
}

// Look looks at what came of the convoy, once everybody has gone home.
func (c *Conductor) Look(ctx context.Context, store *sqlstore.Store) (*Result, error) {
	r, err := c.LookAtRecords(ctx, c.db)
	if err == nil {
		err = r.lookAtQueues(ctx)
	}
	if err == nil {
		err = r.lookAtNumbers(ctx, store)
	}
	return r, err
}

// LookAtRecords looks at what is recorded in a database, or as a transaction sees it.
func (c *Conductor) LookAtRecords(ctx context.Context, records Queryer) (*Result, error) {
	r := &Result{Conductor: c, records: records}
	for _, look := range []func(context.Context) error{r.lookAtTerms, r.lookAtRuns, r.lookAtOrders, r.lookAtRefusals} {
		if err := look(ctx); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *Result) check(problem error, text string, args ...any) {
	r.checks = append(r.checks, check{fmt.Sprintf(text, args...), problem})
}

// Failure returns an error if a check does not hold.
func (r *Result) Failure() error {
	for _, c := range r.checks {
		if c.problem != nil {
			return fmt.Errorf("not %s: %w", c.text, c.problem)
		}
	}
	return nil
}

// Queryer is a database or a transaction.
type Queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// each calls use for every row of a query.
func each(ctx context.Context, db Queryer, query string, use func(scan func(dest ...any) error) error) error {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := use(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (r *Result) lookAtTerms(ctx context.Context) error {
	return each(ctx, r.records, `SELECT queue, worker, coalesce(min(r.began), t.began), coalesce(max(r.ended), t.began), count(DISTINCT r.event)
		FROM convoy_terms t LEFT JOIN convoy_runs r USING (term) GROUP BY term ORDER BY queue, term`,
		func(scan func(...any) error) error {
			var o ownership
			var first, last int64
			err := scan(&o.queue, &o.worker, &first, &last, &o.transactions)
			o.first, o.last = time.UnixMicro(first), time.UnixMicro(last)
			r.terms = append(r.terms, o)
			return err
		})
}

// lookAtRuns checks that the transactions of each order ran one after the
// other, in their order in the ledger, all of them, each once.
func (r *Result) lookAtRuns(ctx context.Context) error {
	type orderRuns struct {
		events []string
		last   uint64 // number
		ended  int64
	}
	seen := map[string]*orderRuns{}
	var problems []error
	problem := func(stream, text string, args ...any) {
		problems = append(problems, fmt.Errorf("%s: %s", stream, fmt.Sprintf(text, args...)))
	}
	err := each(ctx, r.records, `SELECT event, stream, number, began, ended FROM convoy_runs ORDER BY entry`, func(scan func(...any) error) error {
		var event, stream string
		var number uint64
		var began, ended int64
		if err := scan(&event, &stream, &number, &began, &ended); err != nil {
			return err
		}
		order := seen[stream]
		if order == nil {
			order = &orderRuns{}
			seen[stream] = order
		}
		if number != order.last+1 {
			problem(stream, "number %d ran after number %d", number, order.last)
		}
		if began < order.ended {
			problem(stream, "number %d began %v before the one before had ended", number, time.Duration(order.ended-began)*time.Microsecond)
		}
		order.events, order.last, order.ended = append(order.events, event), number, ended
		return nil
	})
	if err != nil {
		return err
	}
	for stream, plan := range r.Script.Orders {
		if runs := seen[stream]; runs == nil {
			problem(stream, "nothing was applied")
		} else if !slices.Equal(runs.events, plan.History) {
			problem(stream, "%d transactions were applied, not the %d of the ledger in their order", len(runs.events), len(plan.History))
		}
		delete(seen, stream)
	}
	for stream := range seen {
		problem(stream, "is an order that was never sent")
	}
	r.check(errors.Join(problems...), "every order first in, first out, completely and once: %d transactions of %d orders", r.Script.Good, len(r.Script.Orders))
	return nil
}

// lookAtOrders checks that the orders are what the ledger makes of them one
// transaction after the other.
func (r *Result) lookAtOrders(ctx context.Context) error {
	got := map[string]map[string]int64{} // the lines of closed orders
	err := each(ctx, r.records, `SELECT stream FROM convoy_orders WHERE closed`, func(scan func(...any) error) error {
		var stream string
		err := scan(&stream)
		got[stream] = map[string]int64{}
		return err
	})
	if err != nil {
		return err
	}
	err = each(ctx, r.records, `SELECT stream, transaction, amount FROM convoy_lines`, func(scan func(...any) error) error {
		var stream, id string
		var amount int64
		err := scan(&stream, &id, &amount)
		if got[stream] != nil {
			got[stream][id] = amount
		}
		return err
	})
	if err != nil {
		return err
	}
	var problems []error
	for stream, plan := range r.Script.Orders {
		if lines, closed := got[stream]; !closed || !maps.Equal(lines, plan.Lines) {
			problems = append(problems, fmt.Errorf("%s is not what the ledger makes of it", stream))
		}
	}
	r.check(errors.Join(problems...), "every order closed, with the amounts that the ledger gives it one by one")
	return nil
}

func (r *Result) lookAtRefusals(ctx context.Context) error {
	var refused []string
	err := each(ctx, r.records, `SELECT transaction, reason FROM convoy_refusals ORDER BY entry`, func(scan func(...any) error) error {
		var id, reason string
		err := scan(&id, &reason)
		refused, r.refusals = append(refused, id), append(r.refusals, fmt.Sprintf("%s: %s", id, reason))
		return err
	})
	var problem error
	if !slices.Equal(refused, r.Script.Refused) {
		problem = fmt.Errorf("they are %q, not %q", refused, r.Script.Refused)
	}
	r.check(problem, "exactly those transactions refused that can never be sent")
	return err
}

// lookAtQueues checks that nothing is left, and that what came too late for its
// order is a dead letter that says so.
func (r *Result) lookAtQueues(ctx context.Context) error {
	letters, err := r.Site.DeadLetters(ctx)
	if err != nil {
		return err
	}
	names := r.Site.QueueNames()
	counts, err := r.Site.Waiting(ctx, names...)
	if err != nil {
		return err
	}
	var problem error
	if slices.Max(counts) > 0 {
		problem = fmt.Errorf("%v messages are left in %v", counts, names)
	}
	r.check(problem, "every queue empty")
	problem = nil
	if len(letters) != 1 || !strings.HasPrefix(letters[0], straggler) || !strings.Contains(letters[0], ordering.ErrEnded.Error()) {
		problem = fmt.Errorf("they are %q", letters)
	}
	r.refusals = append(r.refusals, letters...)
	r.check(problem, "one dead letter, of the transaction that came after its order's last")
	return nil
}
