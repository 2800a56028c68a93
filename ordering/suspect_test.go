package ordering

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// killed are processes that were killed, as far as that can be in one: their
// sequencers are there, in the midst of a handler, and the store has no end of their
// terms.
type killed struct {
	t     *testing.T
	store *markedStore
	cfg   Config[*Event]
	rigs  []*rig
	opens []func()
}

func newKilled(t *testing.T, cfg Config[*Event]) *killed {
	return &killed{t: t, store: &markedStore{Memory: NewMemory()}, cfg: cfg}
}

// start starts the next process, in which handlers of these events do not return.
func (k *killed) start(hang ...string) *rig {
	r := newRig(k.t, &processStore{markedStore: k.store})
	for _, id := range hang {
		k.opens = append(k.opens, r.gate(id))
	}
	r.start(k.cfg)
	k.rigs = append(k.rigs, r)
	return r
}

// bury ends the processes that were killed, the last one first.
func (k *killed) bury() {
	for _, open := range k.opens {
		open()
	}
	for _, r := range slices.Backward(k.rigs) {
		_ = r.seq.Close()
	}
}

// markedStore counts marks, and fails as long as it is told so.
type markedStore struct {
	*Memory
	mu           sync.Mutex
	marks, takes int
	away         error
}

func (s *markedStore) Begin(ctx context.Context, c Consumer) (Term, error) {
	term, err := s.Memory.Begin(ctx, c)
	return markedTerm{term, s}, err
}

// processStore is a store as one process has opened it.
type processStore struct {
	*markedStore
	solo Solo
}

func (s *processStore) Solo() *Solo { return &s.solo }

type markedTerm struct {
	Term
	store *markedStore
}

func (t markedTerm) Mark(ctx context.Context, e *Event, most int) (int, error) {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	if t.store.away != nil {
		return 0, t.store.away
	}
	t.store.marks++
	return t.Term.Mark(ctx, e, most)
}

func (t markedTerm) Unmark(ctx context.Context, e *Event) error {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	if t.store.away != nil {
		return t.store.away
	}
	t.store.takes++
	return t.Term.Unmark(ctx, e)
}

func (s *markedStore) calls() (marks, takes int) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.marks, s.takes
}

func (s *markedStore) isAway(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = err
}

// runsOf is how many runs of an event did not come to an end, as the store has it.
func (s *markedStore) runsOf(e *Event) int {
	synctest.Wait()
	s.Memory.mu.Lock()
	defer s.Memory.mu.Unlock()
	return s.consumerLocked(DefaultConsumer).marks[MarkOf(e.Positions, e.ID)].runs
}

func again(events ...*Event) (list []*Event) { return delivered(DeliveredAgain, events...) }

func delivered(d Delivery, events ...*Event) (list []*Event) {
	for _, e := range events {
		c := *e
		c.Delivery = d
		list = append(list, &c)
	}
	return list
}

// TestWhatEndsTheProcess: an event ends the process each time that it runs, beside
// others. After three runs that were marked it does not run any more, and is parked
// with an error that says so. All others are done, and none of them is given up.
func TestWhatEndsTheProcess(t *testing.T) {
	for _, source := range []Delivery{DeliveredAgain, DeliveryUnknown} {
		t.Run(fmt.Sprint(source), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				k := newKilled(t, Config[*Event]{MaxCrashes: 3, Logger: slog.New(slog.NewTextHandler(&log, nil)), Dispatcher: dispatcher.Config[Job[*Event]]{Workers: 3}})
				killer := ev("k", "k=1")
				events := []*Event{ev("a1", "a=1"), killer, ev("b1", "b=1"), ev("c1", "c=1"), ev("k2", "k=2"), ev("d1", "d=1")}

				r := k.start("a1", "k", "b1") // these three run when the process ends
				r.offer(events...)
				require.Empty(t, r.ran())
				require.Zero(t, k.store.runsOf(killer), "nobody could know")

				r = k.start("a1", "k", "b1")
				r.offer(delivered(source, events...)...)
				require.Empty(t, r.ran())
				for _, e := range events[:3] {
					require.Equal(t, 1, k.store.runsOf(e), e.ID)
				}

				r = k.start("a1", "k", "b1") // one of them is alone, and takes long
				r.offer(delivered(source, events...)...)
				var runs []int
				for _, e := range events[:3] {
					runs = append(runs, k.store.runsOf(e))
				}
				slices.Sort(runs)
				require.Equal(t, []int{1, 1, 2}, runs)

				for starts := 1; len(r.outcome("k")) == 0; starts++ {
					require.LessOrEqual(t, starts, 3)
					r = k.start(map[bool]string{true: "k"}[k.store.runsOf(killer) < 3])
					r.offer(delivered(source, events...)...)
				}
				ran := map[string]int{}
				for _, r := range k.rigs {
					for _, id := range r.ran() {
						ran[id]++
					}
				}
				require.Equal(t, map[string]int{"a1": 1, "b1": 1, "c1": 1, "d1": 1}, ran)
				require.Equal(t, []Result{Held}, r.outcome("k"))
				require.Equal(t, []Result{Held}, r.outcome("k2"))
				parkings := r.parked()
				require.Len(t, parkings, 1)
				require.Contains(t, parkings[0].Error, "in each of its last 3 runs")
				require.EqualValues(t, 1, r.seq.Stats().Crashes)
				require.Contains(t, log.String(), "is not run any more")
				require.Contains(t, r.kinds(), StreamParked)
				require.Zero(t, k.store.runsOf(killer), "parked, it begins anew")
				require.NoError(t, r.seq.Resume(t.Context(), key("k")))
				require.Equal(t, []string{"k", "k2"}, r.ran()[len(r.ran())-2:])
				k.bury()
			})
		})
	}
}

// TestInnocents: those that run beside an event that ends the process are not given
// up with it, however many processes it ends: even with MaxCrashes 1.
func TestInnocents(t *testing.T) {
	for most := 1; most <= 4; most++ {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := Config[*Event]{MaxCrashes: most, Failure: dispatcher.DeadLetter, Dispatcher: dispatcher.Config[Job[*Event]]{Workers: 8}}
				dead := map[string]error{}
				cfg.DeadLetter = func(_ context.Context, e *Event, err error) error { dead[e.ID] = err; return nil }
				events := []*Event{ev("k", "k=1")}
				for n := range 40 {
					events = append(events, ev(fmt.Sprint("i", n), fmt.Sprintf("s%d=1", n)))
				}
				var mu sync.Mutex
				applied := map[string]int{}
				over := make(chan struct{})
				k := newKilled(t, cfg)
				for starts := 1; ; starts++ {
					require.LessOrEqual(t, starts, most+2)
					died := make(chan struct{})
					k.cfg.Handler = func(_ context.Context, job Job[*Event]) error {
						if job.Event.ID == "k" {
							close(died)
						} else {
							time.Sleep(time.Millisecond)
						}
						select {
						case <-died: // with all that runs
							<-over
						default:
						}
						return nil
					}
					r := k.start()
					for _, e := range again(events...) {
						require.NoError(t, r.seq.Offer(t.Context(), e, func(e *Event, o Outcome) {
							mu.Lock()
							defer mu.Unlock()
							if o.Result == Applied {
								applied[e.ID]++
							}
						}))
					}
					r.sleep(time.Minute)
					if dead["k"] != nil {
						break
					}
					<-died
				}
				require.Len(t, applied, 40)
				close(over)
				k.bury()
				require.Len(t, dead, 1, "nobody but the killer")
				var crash *CrashError
				require.ErrorAs(t, dead["k"], &crash)
				require.Equal(t, most, crash.Runs)
				require.Equal(t, "k", crash.Event.ID)
				for id, n := range applied {
					require.Equal(t, 1, n, id)
				}
			})
		})
	}
}

// TestNoMarks: an event of which nobody thinks badly is not marked: in a term after
// one that ended in good order, or if its source says that it is new, or beyond the
// first ones of a source that does not tell, or where it is switched off.
func TestNoMarks(t *testing.T) {
	for _, test := range []struct {
		name   string
		most   int
		clean  bool
		source Delivery
		n      int
		marks  int
	}{
		{name: "clean", clean: true, source: DeliveredAgain, n: 10},
		{name: "off", most: -1, source: DeliveredAgain, n: 10},
		{name: "first", source: FirstDelivery, n: 10},
		{name: "again", source: DeliveredAgain, n: unsureSuspects + 10, marks: unsureSuspects + 10},
		{name: "unknown", source: DeliveryUnknown, n: unsureSuspects + 10, marks: unsureSuspects},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKilled(t, Config[*Event]{MaxCrashes: test.most})
				r := k.start("x")
				r.offer(ev("x", "x=1"))
				if test.clean {
					k.bury()
				}
				r = k.start()
				r.offer(delivered(test.source, series("a", 1, test.n)...)...)
				require.Len(t, r.ran(), test.n)
				marks, takes := k.store.calls()
				assert.Equal(t, test.marks, marks)
				assert.Zero(t, takes, "a commit forgets the mark")
				assert.Empty(t, k.store.consumerLocked(DefaultConsumer).marks)
				k.opens = k.opens[:len(k.opens)-map[bool]int{true: 1}[test.clean]]
				k.bury()
			})
		})
	}
}

// TestRunsThatEnd: however a run comes to an end, it is not counted: by errors, by a
// panic, by runtime.Goexit, by a shutdown, in a term that is over, and for an event
// that fails for good.
func TestRunsThatEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config[*Event]{Dispatcher: dispatcher.Config[Job[*Event]]{MaxAttempts: 5}}
		tries := map[string]int{}
		var mu sync.Mutex
		hang := make(chan struct{})
		cfg.Handler = func(ctx context.Context, job Job[*Event]) error {
			mu.Lock()
			tries[job.Event.ID]++
			n := tries[job.Event.ID]
			mu.Unlock()
			switch {
			case job.Event.ID == "fails" || job.Event.ID == "c":
				return errors.New("no")
			case job.Event.ID == "retried" && n < 3:
				return errors.New("not yet")
			case job.Event.ID == "panics" && n < 3:
				panic("not yet")
			case job.Event.ID == "exits" && n < 3:
				runtime.Goexit()
			case job.Event.ID == "hangs":
				<-ctx.Done()
				return ctx.Err()
			case job.Event.ID == "zombie" && n == 1:
				<-hang
			}
			return nil
		}
		k := newKilled(t, cfg)
		k.start()
		events := again(ev("fails", "a=1"), ev("retried", "b=1"), ev("panics", "c=1"), ev("exits", "d=1"), ev("hangs", "e=1"), ev("zombie", "f=1"), &Event{ID: "c"})
		r := k.start()
		r.offer(events...)
		for _, e := range events {
			require.LessOrEqual(t, k.store.runsOf(e), 1, "an attempt that failed does not count for the next one")
		}
		r.sleep(time.Minute)
		require.Equal(t, []Result{Held}, r.outcome("fails"))
		require.Equal(t, []Result{Failed}, r.outcome("c"))
		for _, id := range []string{"retried", "panics", "exits"} {
			require.Equal(t, []Result{Applied}, r.outcome(id), id)
		}
		for _, e := range events {
			want := 0
			if e.ID == "hangs" || e.ID == "zombie" {
				want = 1
			}
			require.Equal(t, want, k.store.runsOf(e), e.ID)
		}

		heir := k.start() // takes over, while the others are there still
		close(hang)
		synctest.Wait()
		require.Zero(t, k.store.runsOf(events[5]), "its commit was refused, but its run has ended")
		require.Equal(t, []Result{Unfinished}, r.outcome("zombie"))
		heir.offer(events[4])
		require.Equal(t, 2, k.store.runsOf(events[4]))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.NoError(t, r.seq.Shutdown(ctx))
		require.Equal(t, 1, k.store.runsOf(events[4]))
		again, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.NoError(t, heir.seq.Shutdown(again))
		require.Zero(t, k.store.runsOf(events[4]))
		k.bury()
	})
}

// TestTheStoreIsAwayForAMark: the run waits until its mark is there. A shutdown does
// not wait for it.
func TestTheStoreIsAwayForAMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKilled(t, Config[*Event]{})
		k.start()
		r := k.start()
		k.store.isAway(errShaky)
		r.offer(again(ev("a1", "a=1"))...)
		r.sleep(time.Minute)
		require.Empty(t, r.ran())
		require.Empty(t, r.outcome("a1"))
		k.store.isAway(nil)
		r.sleep(2 * time.Second)
		require.Equal(t, []Result{Applied}, r.outcome("a1"))

		k.store.isAway(errShaky)
		r.offer(again(ev("a2", "a=2"))...)
		require.NoError(t, r.seq.Close())
		require.Equal(t, []Result{Unfinished}, r.outcome("a2"))
		k.bury()
	})
}

// TestAlone: what was running when a process ended runs beside nothing, be it an
// event, a command without lock keys, a read, or what runs alone in a sequencer
// of another partition. With one worker too.
func TestAlone(t *testing.T) {
	for _, workers := range []int{1, 2, 8} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				running, suspects, most := map[string]int{}, 0, 0
				cfg := Config[*Event]{Dispatcher: dispatcher.Config[Job[*Event]]{Workers: workers, Timeout: 50 * time.Millisecond}}
				run := func(partition, id string) func() {
					mu.Lock()
					defer mu.Unlock()
					running[partition]++
					most = max(most, running[partition])
					if id[0] == 's' {
						suspects++
						assert.Equal(t, 1, running[partition], id)
						assert.Equal(t, 1, suspects, id)
					}
					return func() {
						mu.Lock()
						defer mu.Unlock()
						running[partition]--
						if id[0] == 's' {
							suspects--
						}
					}
				}
				handler := func(partition string) Handler[*Event] {
					return func(_ context.Context, job Job[*Event]) error {
						defer run(partition, job.Event.ID)()
						time.Sleep(10 * time.Millisecond)
						return nil
					}
				}
				store := &markedStore{Memory: NewMemory()}
				rigs := map[string]*rig{}
				for _, partition := range []string{"a", "b"} {
					cfg.Consumer.Partition = partition
					old := newRig(t, store)
					old.start(cfg)
					for n := range 6 {
						_, err := old.seq.term.Mark(t.Context(), ev("", fmt.Sprintf("s%s%d=1", partition, n)), 1)
						require.NoError(t, err)
					}
					defer old.stop()
				}
				for _, partition := range []string{"a", "b"} {
					cfg.Consumer.Partition, cfg.Handler = partition, handler(partition)
					rigs[partition] = newRig(t, store)
					rigs[partition].start(cfg)
				}
				var reads sync.WaitGroup
				for n := range 6 {
					for partition, r := range rigs {
						for _, e := range []*Event{ev(fmt.Sprint("x", partition, n), fmt.Sprintf("x%s%d=1", partition, n)), ev(fmt.Sprint("s", partition, n), fmt.Sprintf("s%s%d=1", partition, n)), {ID: fmt.Sprint("c", partition, n)}} {
							require.NoError(t, r.seq.Offer(t.Context(), again(e)[0], r.done))
						}
						reads.Go(func() {
							assert.NoError(t, r.seq.Read(t.Context(), func(*lockkeys.Claim) {}, func(context.Context) error {
								defer run(partition, "read")()
								time.Sleep(10 * time.Millisecond)
								return nil
							}))
						})
					}
				}
				reads.Wait()
				for partition, r := range rigs {
					require.NoError(t, r.seq.Drain(t.Context()))
					for n := range 6 {
						for _, kind := range []string{"x", "s", "c"} {
							require.Equal(t, []Result{Applied}, r.outcome(fmt.Sprint(kind, partition, n)))
						}
					}
					require.Zero(t, r.seq.Stats().Crashes)
					r.stop()
				}
				assert.Equal(t, workers > 1, most > 1, "all others ran beside each other")
			})
		})
	}
}
