package sqlstore_test

import (
	"context"
	"database/sql"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// desk is a database with a service that may work on it, and an operator beside it.
type desk struct {
	*testing.T
	store    *sqlstore.Store
	operator *sqlstore.Operator
	bad      sync.Map // events that fail
}

// desks runs a test on SQLite and PostgreSQL.
func desks(t *testing.T, test func(t *testing.T, d *desk)) {
	t.Run("SQLite", func(t *testing.T) {
		path := empty(t)
		d := &desk{T: t, store: closed(t)(sqlite.Open(t.Context(), path))}
		o, err := sqlite.OpenOperator(t.Context(), path)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, o.Close()) })
		d.operator = o
		test(t, d)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		url := database(t)
		d := &desk{T: t, store: closed(t)(postgres.Open(t.Context(), url))}
		o, err := postgres.OpenOperator(t.Context(), url)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, o.Close()) })
		d.operator = o
		test(t, d)
	})
}

// serve starts a sequencer, of a partition.
func (d *desk) serve(partition string, owns func(lockkeys.Key) bool) *ordering.Sequencer[*ordering.Event] {
	d.Helper()
	s, err := ordering.New(d.Context(), ordering.Config[*ordering.Event]{
		Store: d.store, Consumer: ordering.Consumer{Partition: partition}, Owns: owns, RequestInterval: 10 * time.Millisecond,
		Handler: sqlstore.InTx(d.store, func(ctx context.Context, tx *sql.Tx, job ordering.Job[*ordering.Event]) error {
			if why, failing := d.bad.Load(job.Event.ID); failing {
				return dispatcher.Permanent(why.(error))
			}
			return effect(job.Event.ID)(ctx, tx)
		}),
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(d, err)
	d.Cleanup(func() { assert.NoError(d, s.Close()) })
	return s
}

// park offers an event that fails.
func (d *desk) park(s *ordering.Sequencer[*ordering.Event], id, stream string, number uint64) {
	d.Helper()
	d.bad.Store(id, assert.AnError)
	require.NoError(d, s.Offer(d.Context(), &ordering.Event{ID: id, Positions: at(stream, number)}, nil))
	require.Eventually(d, func() bool {
		list, err := d.operator.Reader("").Parked(d.Context())
		for _, p := range list {
			if p.Streams[0].Stream == lockkeys.Must(stream) {
				return true
			}
		}
		return err != nil
	}, time.Minute, 5*time.Millisecond)
}

func (d *desk) reached(stream string) uint64 {
	n, err := d.operator.Reader("").Reached(d.Context(), lockkeys.Must(stream))
	assert.NoError(d, err)
	return n
}

// target returns the target of what closes a stream at a position.
func (d *desk) target(position string) string {
	d.Helper()
	v, err := d.operator.Of("").View(d.Context(), view.Query{})
	require.NoError(d, err)
	for _, row := range v.Tables[0].Rows {
		if strings.HasPrefix(row.Target, position+" @") {
			return row.Target
		}
	}
	require.Failf(d, "nothing is parked", "at %s: %v", position, v.Tables[0].Rows)
	return ""
}

// ask leaves a request and waits for what becomes of it.
func (d *desk) ask(a view.Action) ordering.Request {
	d.Helper()
	r, err := d.operator.Ask(d.asAnn(), "", a)
	require.NoError(d, err)
	return d.await(r)
}

func (d *desk) await(r ordering.Request) ordering.Request {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), time.Minute)
	defer cancel()
	r, err := d.operator.Await(ctx, r.ID)
	require.NoError(d, err)
	return r
}

func (d *desk) asAnn() context.Context {
	return dispatcher.WithOperator(d.Context(), "ann", "case 17")
}

// An operator decides beside the service that works, which goes on, is not fenced, and
// keeps who decided and why.
func TestOperatorBesideTheService(t *testing.T) {
	desks(t, func(t *testing.T, d *desk) {
		s := d.serve("", nil)
		d.park(s, "first", "a", 1)
		d.park(s, "second", "b", 1)

		seen, err := d.operator.Of("").View(t.Context(), view.Query{})
		require.NoError(t, err)
		require.Equal(t, []string{"2 parkings: an operator must decide"}, seen.Problems)
		require.Len(t, seen.Tables[0].Rows, 2)
		first := seen.Tables[0].Rows[0]
		require.True(t, strings.HasPrefix(first.Target, "a=1 @"))
		payloads, err := d.operator.Of("").(view.Opener).Payloads(t.Context(), first.Target)
		require.NoError(t, err)
		require.Len(t, payloads, 1)
		assert.Equal(t, "first", payloads[0].Message.(*ordering.Event).ID)

		skip := d.ask(view.Action{Name: view.Skip, Target: first.Target})
		assert.Equal(t, "done", skip.State())
		assert.Equal(t, "ann", skip.By)
		assert.EqualValues(t, 1, d.reached("a"))
		decided, err := d.operator.Reader("").Decisions(t.Context(), time.Time{}, 10)
		require.NoError(t, err)
		require.Len(t, decided, 1)
		assert.Equal(t, []string{"first", "ann", "case 17"}, []string{decided[0].Event, decided[0].By, decided[0].Reason})

		t.Log("resumed by the page's way")
		d.bad.Delete("second")
		require.NoError(t, d.operator.Of("").Act(d.asAnn(), view.Action{Name: view.Resume, Target: d.target("b=1")}))
		require.Eventually(t, func() bool { return d.reached("b") == 1 }, time.Minute, 5*time.Millisecond)

		t.Log("what was seen is not there any more")
		d.park(s, "third", "a", 2)
		for _, stale := range []view.Action{{Name: view.Skip, Target: first.Target}, {Name: view.Drop, Target: "b=1 @X"}, {Name: view.Skip, Target: "nowhere=1 @X"}, {Name: view.Skip, Target: "a=2 @X"}} {
			assert.Contains(t, d.ask(stale).State(), "failed: "+ordering.ErrNotParked.Error(), stale)
		}
		assert.Contains(t, d.ask(view.Action{Name: "burn", Target: "a=2"}).State(), "use resume, skip or drop")
		assert.Contains(t, d.ask(view.Action{Name: view.Skip, Target: "a @X"}).State(), "is no position")
		assert.Contains(t, d.ask(view.Action{Name: view.Skip, Target: "a=2"}).State(), "names no parking")
		parked, err := s.Parked(t.Context())
		require.NoError(t, err)
		assert.Len(t, parked, 1)
		require.Error(t, d.operator.Of("").Act(d.asAnn(), view.Action{Name: view.Skip, Target: "b=7 @X"}))

		names, err := d.operator.Consumers(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{"default"}, names)
		require.NoError(t, s.Err(), "nobody took anything over")
		list, err := d.operator.Requests(t.Context(), "default", 100)
		require.NoError(t, err)
		assert.Len(t, list, 10)
		require.NoError(t, s.Close())
		end, err := d.store.Begin(t.Context(), ordering.Consumer{})
		require.NoError(t, err)
		n, err := end.Prune(t.Context(), time.Now().Add(time.Hour), time.Time{})
		require.NoError(t, err)
		assert.GreaterOrEqual(t, n, int64(10))
		list, err = d.operator.Requests(t.Context(), "", 100)
		require.NoError(t, err)
		assert.Empty(t, list)
	})
}

// A request waits for a service that is down, can be withdrawn, and is carried out when
// the service is back.
func TestOperatorWhileNobodyWorks(t *testing.T) {
	desks(t, func(t *testing.T, d *desk) {
		s := d.serve("", nil)
		d.park(s, "x", "a", 1)
		d.park(s, "y", "b", 1)
		require.NoError(t, s.Close())

		seen, err := d.operator.Of("").View(t.Context(), view.Query{})
		require.NoError(t, err)
		assert.Contains(t, seen.Problems, "nobody works on it: requests wait until somebody does")
		waits, err := d.operator.Ask(d.asAnn(), "", view.Action{Name: view.Skip, Target: d.target("a=1")})
		require.NoError(t, err)
		back, err := d.operator.Ask(d.asAnn(), "", view.Action{Name: view.Drop, Target: d.target("b=1")})
		require.NoError(t, err)
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err = d.operator.Await(short, waits.ID)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "stays")
		require.NoError(t, d.operator.Withdraw(d.asAnn(), back.ID))
		require.ErrorIs(t, d.operator.Withdraw(d.asAnn(), back.ID), ordering.ErrNoRequest)
		assert.Equal(t, "failed: withdrawn by ann: case 17", d.await(back).State())

		s = d.serve("", nil)
		assert.Equal(t, "done", d.await(waits).State())
		require.ErrorIs(t, d.operator.Withdraw(d.asAnn(), waits.ID), ordering.ErrNoRequest)
		parked, err := s.Parked(t.Context())
		require.NoError(t, err)
		require.Len(t, parked, 1)
		assert.Equal(t, lockkeys.Must("b"), parked[0].Streams[0].Stream)
	})
}

// If the process ends while a request is under way, the next one tries again, and the
// result says that it may have been carried out before.
func TestRequestThatWasBegun(t *testing.T) {
	desks(t, func(t *testing.T, d *desk) {
		s := d.serve("", nil)
		d.park(s, "x", "a", 1)
		seen := d.target("a=1")
		require.NoError(t, s.Skip(d.asAnn(), lockkeys.Must("a"))) // carried out, and not noted
		require.NoError(t, s.Close())
		r, err := d.operator.Ask(d.asAnn(), "", view.Action{Name: view.Skip, Target: seen})
		require.NoError(t, err)
		dead, err := d.store.Begin(t.Context(), ordering.Consumer{})
		require.NoError(t, err)
		list, err := dead.(ordering.Requested).Requests(t.Context(), 10)
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.NoError(t, dead.(ordering.Requested).BeginRequest(t.Context(), r.ID))
		require.ErrorIs(t, d.operator.Withdraw(d.asAnn(), r.ID), ordering.ErrNoRequest, "it has been begun")

		d.serve("", nil)
		assert.Contains(t, d.await(r).State(), "it was begun before")
		require.ErrorIs(t, dead.(ordering.Requested).BeginRequest(t.Context(), r.ID), ordering.ErrFenced)
		require.ErrorIs(t, dead.(ordering.Requested).EndRequest(t.Context(), r.ID, nil), ordering.ErrFenced)
	})
}

// Of several partitions the one that has the stream carries a request out, so that
// nobody takes it over for that.
func TestRequestToAPartition(t *testing.T) {
	desks(t, func(t *testing.T, d *desk) {
		owns := func(name string) func(lockkeys.Key) bool {
			return func(stream lockkeys.Key) bool { return stream == lockkeys.Must(name) }
		}
		partitions := map[string]*ordering.Sequencer[*ordering.Event]{"a": d.serve("a", owns("a")), "b": d.serve("b", owns("b"))}
		for round := range uint64(5) {
			for name, s := range partitions {
				d.park(s, name+string(rune('0'+round)), name, round+1)
			}
			for name, s := range partitions {
				v, err := s.View(t.Context(), view.Query{})
				require.NoError(t, err)
				require.Len(t, v.Tables[0].Rows, 1, "a partition shows what is its own")
				other := map[string]string{"a": "b", "b": "a"}[name]
				require.ErrorIs(t, s.Resume(t.Context(), lockkeys.Must(other)), ordering.ErrNotOwned)
				require.ErrorIs(t, s.Act(t.Context(), view.Action{Name: view.Skip, Target: other + "=1 @X"}), ordering.ErrNotOwned)
			}
			for name := range partitions {
				target := d.target(ordering.Position{Stream: lockkeys.Must(name), Number: round + 1}.String())
				require.Equal(t, "done", d.ask(view.Action{Name: view.Skip, Target: target}).State(), target)
			}
		}
		for _, s := range partitions {
			require.NoError(t, s.Err())
		}
	})
}

// A request that could never be carried out is refused where it is made.
func TestRequestsThatAreRefused(t *testing.T) {
	desks(t, func(t *testing.T, d *desk) {
		skip := view.Action{Name: view.Skip, Target: "a=1"}
		_, err := d.operator.Ask(d.asAnn(), "payments", skip)
		require.ErrorIs(t, err, sqlstore.ErrNoConsumer)
		require.ErrorContains(t, err, `"payments": the database has "default"`)
		for _, who := range [][2]string{{"", "why"}, {"ann", ""}} {
			_, err = d.operator.Ask(dispatcher.WithOperator(t.Context(), who[0], who[1]), "", skip)
			require.ErrorIs(t, err, sqlstore.ErrUnsigned)
		}
		for _, empty := range []view.Action{{Name: view.Skip}, {Target: "a=1"}} {
			_, err = d.operator.Ask(d.asAnn(), "", empty)
			require.ErrorIs(t, err, view.ErrAction)
		}
		_, err = d.operator.Await(t.Context(), 99)
		require.ErrorIs(t, err, ordering.ErrNoRequest)
		list, err := d.operator.Requests(t.Context(), "", 10)
		require.NoError(t, err)
		assert.Empty(t, list)
		_, err = d.operator.DB().ExecContext(t.Context(), `INSERT INTO effects (event) VALUES ('by the tool')`)
		require.Error(t, err, "an operator only leaves requests")
	})
}
