package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// committer commits records in their own terms.
type committer interface {
	Commit(ctx context.Context, r ordering.Record) error
}

// next begins the next term of the holder's partition, on the same store.
func (f *fixture) next(holder string) *holder {
	c := f.term.Info().Consumer
	c.Holder = holder
	return newHolder(f.T, f.store, c)
}

// isOver checks that a call was refused since the term is over, and says who
// has the next one.
func (f *fixture) isOver(err error, by ordering.TermInfo, msg ...any) {
	f.Helper()
	var taken *ordering.TakenOverError
	require.ErrorIs(f, err, ordering.ErrFenced, msg...)
	require.ErrorAs(f, err, &taken, msg...)
	require.Nil(f, taken.Stream, msg...)
	require.Equal(f, by.Consumer, taken.Consumer, msg...)
	require.True(f, by.Since.Equal(taken.Since), msg...)
	require.False(f, taken.Ended, msg...)
}

var termTests = []test{
	{promise: "a term says which it is, and what was before it", run: func(f *fixture) {
		c := ordering.Consumer{Name: "billing", Partition: "7", Holder: "host 1"}
		begun := time.Now().Add(-time.Second)
		first := newHolder(f.T, f.store, c)
		info := first.term.Info()
		require.Equal(f, c, info.Consumer)
		require.EqualValues(f, 1, info.Number)
		require.Nil(f, info.Previous)
		require.WithinRange(f, info.Since, begun, time.Now())

		c.Holder = "host 2"
		second := newHolder(f.T, f.store, c)
		again := second.term.Info()
		require.EqualValues(f, 2, again.Number)
		require.Greater(f, again.Token, info.Token)
		require.Equal(f, "host 1", again.Previous.Holder)
		require.True(f, info.Since.Equal(again.Previous.Since))
		require.False(f, again.Previous.Ended)

		f.ok(second.term.End(f.ctx))
		require.True(f, newHolder(f.T, f.store, c).term.Info().Previous.Ended)
		other := newHolder(f.T, f.store, ordering.Consumer{Name: "billing", Partition: "8"})
		require.EqualValues(f, 1, other.term.Info().Number)
		require.Nil(f, other.term.Info().Previous)
		require.NotEmpty(f, other.term.Info().Holder)
	}},
	{promise: "once the next one has begun, a term writes and acquires no more, and is told who has it", run: func(f *fixture) {
		f.acquire("a", "b")
		f.commit("a=1")
		f.park(failure("p", at, event("x", "b=1")))
		next := f.next("heir")
		for name, err := range f.calls(f.ctx) {
			switch name {
			case "Begin", "Held", "Parked", "Backlog", "Reached", "Decisions", "Unmark":
				f.ok(err)
			default:
				f.isOver(err, next.term.Info(), name)
			}
		}
		f.isOver(f.try(event("", "a=2")), next.term.Info())
		require.Equal(f, []state{{Last: 1}, {HeldAt: 1, Parked: "p"}}, next.states("a", "b"))
		require.Len(f, next.parked(), 1)
		next.commit("a=2")
	}},
	{promise: "also of streams that the next one has not acquired", run: func(f *fixture) {
		f.acquire("a", "b")
		next := f.next("heir")
		next.acquire("b")
		f.isOver(f.try(event("", "a=1")), next.term.Info())
		f.isOver(f.try(event("", "a=3")), next.term.Info(), "out of order")
		require.Equal(f, []state{{}}, next.states("a"))
	}},
	{promise: "one that has ended writes no more", run: func(f *fixture) {
		f.acquire("a")
		f.ok(f.term.End(f.ctx))
		var taken *ordering.TakenOverError
		require.ErrorAs(f, f.try(event("", "a=1")), &taken)
		require.True(f, taken.Ended)
		f.ok(f.term.End(f.ctx))
		next := f.next("heir")
		require.True(f, next.term.Info().Previous.Ended)
		f.isOver(f.term.End(f.ctx), next.term.Info())
		require.Equal(f, []state{{}}, next.states("a"))
		next.commit("a=1")
	}},
	{promise: "partitions have terms of their own, and take streams from each other", run: func(f *fixture) {
		f.acquire("a", "b", "c")
		other := newHolder(f.T, f.store, ordering.Consumer{Partition: "other", Holder: "its holder"})
		f.commit("a=1")
		require.Equal(f, []state{{}}, other.states("b"))
		other.commit("b=1")
		for _, p := range []string{"b=2", "b=5", "a=2, b=2"} {
			var taken *ordering.TakenOverError
			err := f.try(event("", p))
			require.ErrorIs(f, err, ordering.ErrFenced, p)
			require.ErrorAs(f, err, &taken, p)
			require.Equal(f, lockkeys.Must("b"), *taken.Stream)
			require.Equal(f, other.term.Info().Consumer, taken.Consumer)
			require.True(f, other.term.Info().Since.Equal(taken.Since))
		}
		for _, err := range []error{f.trySkip("b", 2, 2), f.tryHold(event("x", "b=2")), f.tryPark(failure("p", at, event("x", "b=2")))} {
			var taken *ordering.TakenOverError
			require.ErrorAs(f, err, &taken)
			require.Equal(f, "its holder", taken.Holder)
		}
		f.commit("a=2", "c=1")
		require.Equal(f, []state{{Last: 1}}, f.states("b"), "taken back")
		require.ErrorIs(f, other.try(event("", "b=2")), ordering.ErrFenced)
		f.commit("b=2")
	}},
	{promise: "what is kept for one name is nobody else's", run: func(f *fixture) {
		billing := newHolder(f.T, f.store, ordering.Consumer{Name: "billing"})
		risk := newHolder(f.T, f.store, ordering.Consumer{Name: "risk"})
		for _, h := range []*holder{billing, risk} {
			h.acquire("a", "b")
		}
		billing.commit("a=1", "a=3", "b=1;end")
		billing.ok(billing.term.Commit(f.ctx, billing.record(&ordering.Event{ID: "c"})))
		skipped := ordering.Skipped{Stream: lockkeys.Must("c"), From: 1, To: 2, Fence: billing.acquire("c")[0].Fence, By: "ann", Time: at}
		billing.ok(billing.term.Skip(f.ctx, skipped))
		billing.park(failure("p", at, event("x", "d=1")))
		billing.hold(event("y", "e=1"))
		require.Equal(f, 1, billing.mark(event("z", "a=4")))

		require.Equal(f, []state{{}, {}, {}, {}, {}}, risk.states("a", "b", "c", "d", "e"))
		require.Equal(f, []state{{}, {}, {}, {}, {}}, f.states("a", "b", "c", "d", "e"))
		risk.noJob("a=1, b=1, c=1, d=1")
		require.Empty(f, risk.held("d", 0, 9))
		require.Empty(f, risk.parked())
		require.Empty(f, risk.parked("p"))
		require.Empty(f, risk.backlog())
		require.Empty(f, risk.decisions(time.Time{}, 9))
		require.Equal(f, []*ordering.JobState{nil}, risk.lookCommands("c"))
		require.Equal(f, 1, risk.mark(event("z", "a=4")))
		n, err := risk.term.Prune(f.ctx, at.Add(time.Hour), at.Add(time.Hour))
		f.ok(err)
		require.Zero(f, n)

		risk.commit("a=1")
		risk.ok(risk.term.Commit(f.ctx, risk.record(&ordering.Event{ID: "c"})))
		risk.park(failure("p", at, event("other x", "a=5")))
		risk.unpark("p")
		require.Len(f, billing.parked("p"), 1)
		parked, err := f.store.Reader("billing").Parked(f.ctx)
		f.ok(err)
		require.Len(f, parked, 1)
		require.Equal(f, []state{{Last: 1, Done: spans(3)}}, billing.states("a"))
	}},
	{promise: "a reader needs no term, and takes nothing over", run: func(f *fixture) {
		f.acquire("a")
		f.park(failure("p", at, event("x", "a=1")))
		f.hold(event("y", "b=1"))
		r := f.store.Reader("")
		parked, err := r.Parked(f.ctx)
		f.ok(err)
		require.Len(f, parked, 1)
		held, err := r.Held(f.ctx, lockkeys.Must("a"), 1, 9, 1<<20)
		f.ok(err)
		require.Len(f, held, 1)
		backlog, err := r.Backlog(f.ctx)
		f.ok(err)
		require.Equal(f, []lockkeys.Key{lockkeys.Must("b")}, backlog)
		f.unpark("p")
		reached := func(r ordering.Reader, stream string) uint64 {
			last, err := r.Reached(f.ctx, lockkeys.Must(stream))
			f.ok(err)
			return last
		}
		require.Zero(f, reached(r, "c"))
		f.acquire("c")
		f.commit("c=1", "c=2", "c=4")
		require.EqualValues(f, 2, reached(r, "c"))
		f.commit("c=3")
		require.EqualValues(f, 4, reached(r, "c"))

		unknown := f.store.Reader("nobody")
		require.Zero(f, reached(unknown, "c"))
		parked, err = unknown.Parked(f.ctx)
		f.ok(err)
		require.Empty(f, parked)
		decisions, err := unknown.Decisions(f.ctx, time.Time{}, 9)
		f.ok(err)
		require.Empty(f, decisions)
	}},
	{promise: "a name that cannot be kept is refused", run: func(f *fixture) {
		for _, c := range []ordering.Consumer{
			{Name: "bad\xff"}, {Name: "a\x00b"}, {Partition: "\x00"}, {Name: fmt.Sprintf("%201d", 1)}, {Partition: fmt.Sprintf("%201d", 1)},
		} {
			_, err := f.store.Begin(f.ctx, c)
			require.ErrorIs(f, err, ordering.ErrConfig)
		}
		odd := ordering.Consumer{Name: "日本'\"\\", Partition: fmt.Sprintf("%200d", 1), Holder: "bad\xff and \x00"}
		require.Equal(f, odd.Name, newHolder(f.T, f.store, odd).term.Info().Name)
		require.EqualValues(f, 2, newHolder(f.T, f.store, odd).term.Info().Number)
	}},
	{promise: "a record is checked against its own term", run: func(f *fixture) {
		f.acquire("a")
		info := f.term.Info()
		r := f.record(event("", "a=1"))
		own := f.store.(committer)
		require.Error(f, own.Commit(f.ctx, r), "it has none")
		r.Term = &info
		f.ok(own.Commit(f.ctx, r))

		later := info
		later.Number++
		later.Token++
		r = f.record(event("", "a=2"))
		r.Term = &later
		var lost *ordering.LostError
		require.ErrorAs(f, own.Commit(f.ctx, r), &lost)
		require.Equal(f, ordering.LostError{Term: true, Known: 2, Has: 1}, *lost)

		next := f.next("heir")
		r.Term = &info
		f.isOver(own.Commit(f.ctx, r), next.term.Info())
		require.Equal(f, []state{{Last: 1}}, next.states("a"))
	}},
	{promise: "when a term begins while another one commits, all that was committed is there, and nothing comes after", run: func(f *fixture) {
		const writers = 6
		streams := make([]string, writers)
		for i := range streams {
			streams[i] = fmt.Sprint("s", i)
		}
		f.acquire(streams...)
		var committed [writers]atomic.Uint64
		var some atomic.Int64
		enough := make(chan struct{})
		over := make(chan error, 1)
		go func() {
			over <- inParallel(writers, func(i int) error {
				for n := uint64(1); ; n++ {
					err := f.try(event("", fmt.Sprintf("%s=%d", streams[i], n)))
					if errors.Is(err, ordering.ErrFenced) {
						return nil
					}
					if err != nil {
						return err
					}
					committed[i].Store(n)
					if some.Add(1) == 5*writers {
						close(enough)
					}
				}
			})
		}()
		<-enough
		next := f.next("heir")
		begun := next.look("s0=1, s1=1, s2=1, s3=1, s4=1, s5=1")
		f.ok(<-over)
		for i, s := range next.states(streams...) {
			require.Equal(f, begun[i].Last, s.Last, "nothing came after")
			require.Equal(f, committed[i].Load(), s.Last, "all that was committed is there")
		}
	}},
	{promise: "of many that begin at once each has a number, and the last one goes on", run: func(f *fixture) {
		const n = 12
		terms := make([]ordering.Term, n+1) // by number
		f.ok(inParallel(n, func(int) error {
			term, err := f.store.Begin(f.ctx, ordering.Consumer{Partition: "wanted"})
			if err != nil {
				return err
			}
			number := term.Info().Number
			if number < 1 || number > n || terms[number] != nil {
				return fmt.Errorf("number %d", number)
			}
			terms[number] = term
			return nil
		}))
		for i, term := range terms[1:] {
			_, err := term.Acquire(f.ctx, []lockkeys.Key{lockkeys.Must("a")})
			if i+1 == n {
				f.ok(err)
			} else {
				require.ErrorIs(f, err, ordering.ErrFenced)
			}
		}
	}},
	{promise: "terms are there after a restart", durable: true, run: func(f *fixture) {
		f.acquire("a")
		f.commit("a=1")
		old := f.record(event("", "a=2"))
		info := f.term.Info()
		old.Term = &info
		f.reopen()
		require.EqualValues(f, 2, f.term.Info().Number)
		require.Equal(f, info.Holder, f.term.Info().Previous.Holder)
		require.False(f, f.term.Info().Previous.Ended)
		require.ErrorIs(f, f.store.(committer).Commit(f.ctx, old), ordering.ErrFenced)
		f.ok(f.term.End(f.ctx))
		f.reopen()
		require.True(f, f.term.Info().Previous.Ended)
		require.Equal(f, []state{{Last: 1}}, f.states("a"))
	}},
}
