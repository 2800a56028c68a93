package ordering

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

func key(text string) lockkeys.Key { return lockkeys.MustParse(text) }

func TestInOrderEventsRunAtOnce(t *testing.T) {
	story(t, Config[*Event]{}, func(t *testing.T, r *rig) {
		r.offer(series("a", 1, 3)...)
		assert.Equal(t, []string{"a1", "a2", "a3"}, r.ran())
		assert.Equal(t, []Result{Applied}, r.outcome("a3"))
		assert.Empty(t, r.kinds())
	})
}

func TestAnEarlyEventWaitsForThoseBeforeIt(t *testing.T) {
	story(t, Config[*Event]{}, func(t *testing.T, r *rig) {
		a := series("a", 1, 4)
		r.offer(a[3], a[1], a[2])
		assert.Empty(t, r.ran())
		r.offer(a[0])
		assert.Equal(t, []string{"a1", "a2", "a3", "a4"}, r.ran())
		assert.Equal(t, []NoticeKind{GapOpened, GapClosed}, r.kinds())
	})
}

func TestADuplicateIsAcknowledgedAndNotRun(t *testing.T) {
	story(t, Config[*Event]{}, func(t *testing.T, r *rig) {
		a := series("a", 1, 3)
		r.offer(a...)
		r.offer(a[1], ev("a1", "a=1"))
		assert.Equal(t, []string{"a1", "a2", "a3"}, r.ran())
		assert.Equal(t, []Result{Applied, Duplicate}, r.outcome("a1"))
		assert.Equal(t, []Result{Applied, Duplicate}, r.outcome("a2"))
	})
}

func TestARedeliveryJoinsTheCopyThatRuns(t *testing.T) {
	story(t, Config[*Event]{}, func(t *testing.T, r *rig) {
		open := r.gate("a1")
		r.offer(ev("a1", "a=1"), ev("a2", "a=2"), ev("a1", "a=1"), ev("a2", "a=2"))
		assert.Empty(t, r.outcome("a1"), "not acknowledged while it runs")
		open()
		assert.Equal(t, []string{"a1", "a2"}, r.ran())
		assert.Equal(t, []Result{Applied, Duplicate}, r.outcome("a1"))
		assert.Equal(t, []Result{Applied, Duplicate}, r.outcome("a2"))
	})
}

func TestARedeliveryOfAnEarlyEventJoinsIt(t *testing.T) {
	story(t, Config[*Event]{}, func(t *testing.T, r *rig) {
		r.offer(ev("a2", "a=2"), ev("a2", "a=2"), ev("a1", "a=1"))
		assert.Equal(t, []string{"a1", "a2"}, r.ran())
		assert.Equal(t, []Result{Applied, Duplicate}, r.outcome("a2"))
	})
}

func TestAnEventWithSeveralPositionsWaitsForAllItsStreams(t *testing.T) {
	story(t, Config[*Event]{}, func(t *testing.T, r *rig) {
		r.offer(ev("transfer", "a=2, b=3"))
		r.offer(series("a", 1, 1)...)
		r.offer(ev("a3", "a=3"))
		r.offer(series("b", 1, 1)...)
		assert.Equal(t, []string{"a1", "b1"}, r.ran())
		r.offer(ev("b4", "b=4"), ev("b2", "b=2"))
		assert.Equal(t, []string{"a1", "b1", "b2", "transfer"}, r.ran()[:4])
		assert.ElementsMatch(t, []string{"a3", "b4"}, r.ran()[4:])
	})
}

func TestContradictoryNumbersAreReportedWithBothEvents(t *testing.T) {
	story(t, Config[*Event]{}, func(t *testing.T, r *rig) {
		r.offer(ev("x", "a=1, b=2"), ev("y", "a=2, b=1"))
		assert.Empty(t, r.ran())
		parked := r.parked()
		require.Len(t, parked, 1)
		assert.Equal(t, Contradiction, parked[0].Reason)
		require.Len(t, parked[0].Events, 2)
		assert.ElementsMatch(t, []string{"x", "y"}, []string{parked[0].Events[0].ID, parked[0].Events[1].ID})
		assert.Contains(t, parked[0].Error, `"x" (a=1, b=2)`)
		assert.Contains(t, parked[0].Error, `"y" (a=2, b=1)`)

		r.offer(ev("c1", "c=1")) // others never notice
		assert.Equal(t, []string{"c1"}, r.ran())

		require.NoError(t, r.seq.Skip(t.Context(), key("a"))) // x is at the head of a
		assert.Equal(t, []string{"c1", "y"}, r.ran())
		r.offer(ev("b3", "b=3"), ev("a3", "a=3"))
		assert.Len(t, r.ran(), 4)
	})
}

func TestTwoEventsWithOneNumberContradict(t *testing.T) {
	story(t, Config[*Event]{}, func(t *testing.T, r *rig) {
		open := r.gate("x")
		r.offer(ev("x", "a=1"), ev("y", "a=1"))
		assert.Equal(t, []Result{Refused}, r.outcome("y"))
		open()
		assert.Equal(t, []string{"x"}, r.ran())
	})
}

func TestAnEventNumberedAgainstWhatIsDoneIsRefused(t *testing.T) {
	story(t, Config[*Event]{}, func(t *testing.T, r *rig) {
		r.offer(ev("a1", "a=1"), ev("x", "a=1, b=1"))
		assert.Equal(t, []Result{Refused}, r.outcome("x"))
		r.mu.Lock()
		defer r.mu.Unlock()
		var conflict *ConflictError
		require.ErrorAs(t, r.notices[0].Err, &conflict)
		require.ErrorIs(t, conflict, ErrContradiction)
		assert.Equal(t, "a1", conflict.Other)
		assert.Equal(t, key("a"), conflict.Position.Stream)
	})
}

func TestAGapIsReplayedAfterItsGraceTime(t *testing.T) {
	a := series("a", 1, 4)
	source := &archive{events: a}
	story(t, Config[*Event]{Replayer: source, GapTimeout: time.Second}, func(t *testing.T, r *rig) {
		r.offer(a[0], a[3])
		r.sleep(999 * time.Millisecond)
		assert.Empty(t, source.requests())
		r.sleep(time.Millisecond)
		assert.Equal(t, []Range{{Stream: key("a"), From: 2, To: 3}}, source.requests())
		assert.Equal(t, []string{"a1", "a2", "a3", "a4"}, r.ran())
		assert.ElementsMatch(t, []NoticeKind{GapOpened, ReplayAsked, GapClosed}, r.kinds(), "the replay may be faster than its notice")
	})
}

func TestALateEventWithinTheGraceTimeNeedsNoReplay(t *testing.T) {
	source := &archive{}
	story(t, Config[*Event]{Replayer: source, GapTimeout: time.Second}, func(t *testing.T, r *rig) {
		a := series("a", 1, 3)
		r.offer(a[0], a[2])
		r.sleep(200 * time.Millisecond)
		r.offer(a[1])
		r.sleep(time.Minute)
		assert.Equal(t, []string{"a1", "a2", "a3"}, r.ran())
		assert.Empty(t, source.requests())
	})
}

func TestFurtherHolesAreAskedForByTheirOwnAge(t *testing.T) {
	a := series("a", 1, 7)
	source := &archive{events: a}
	story(t, Config[*Event]{Replayer: source, GapTimeout: time.Second}, func(t *testing.T, r *rig) {
		r.offer(a[0], a[2]) // 2 is missing
		r.sleep(600 * time.Millisecond)
		r.offer(a[6]) // 4 to 6 are
		r.sleep(400 * time.Millisecond)
		assert.Equal(t, []string{"a1", "a2", "a3"}, r.ran())
		r.sleep(599 * time.Millisecond)
		assert.Len(t, source.requests(), 1)
		r.sleep(time.Millisecond)
		assert.Equal(t, []Range{{Stream: key("a"), From: 2, To: 2}, {Stream: key("a"), From: 4, To: 6}}, source.requests())
		assert.Len(t, r.ran(), 7)
	})
}

func TestNumbersThatNeverExistedAreSkippedWithARecord(t *testing.T) {
	source := &archive{noSuch: []Range{{Stream: key("a"), From: 1, To: 5}}}
	story(t, Config[*Event]{Replayer: source, GapTimeout: time.Second}, func(t *testing.T, r *rig) {
		r.offer(ev("a6", "a=6"))
		r.sleep(time.Second)
		assert.Equal(t, []string{"a6"}, r.ran())
		assert.Contains(t, r.kinds(), NumbersSkipped)
		r.offer(ev("a3", "a=3")) // comes after all: it was never done, so it is no duplicate
		assert.Equal(t, []Result{Refused}, r.outcome("a3"))
	})
}

func TestAGapThatStaysOpenParksItsStreamOnly(t *testing.T) {
	source := &archive{err: errors.New("unreachable")}
	story(t, Config[*Event]{Replayer: source, GapTimeout: time.Second}, func(t *testing.T, r *rig) {
		a := series("a", 1, 5)
		r.offer(a[0], a[2], a[3])
		r.sleep(time.Second)
		parked := r.parked()
		require.Len(t, parked, 1)
		assert.Equal(t, Gap, parked[0].Reason)
		assert.Equal(t, Range{Stream: key("a"), From: 2, To: 2}, parked[0].Gap)
		assert.Contains(t, parked[0].Error, "unreachable")
		assert.Equal(t, []Result{Held}, r.outcome("a3"), "the source need not keep it")
		r.offer(a[4])
		assert.Equal(t, []Result{Held}, r.outcome("a5"))
		r.offer(ev("b1", "b=1"))
		assert.Equal(t, []string{"a1", "b1"}, r.ran())

		r.offer(a[1]) // what was missing comes after all
		assert.Equal(t, []string{"a1", "b1", "a2", "a3", "a4", "a5"}, r.ran())
		assert.Empty(t, r.parked())
		r.offer(ev("a6", "a=6"))
		assert.Equal(t, []Result{Applied}, r.outcome("a6"))
		assert.Equal(t, 0, r.seq.Stats().Open)
	})
}

func TestAGapThatStaysOpenIsSkipped(t *testing.T) {
	story(t, Config[*Event]{GapTimeout: time.Second, GapPolicy: dispatcher.DeadLetter}, func(t *testing.T, r *rig) {
		r.offer(ev("a3", "a=3"), ev("a5", "a=5"))
		r.sleep(time.Second)
		assert.Equal(t, []string{"a3", "a5"}, r.ran())
		assert.Contains(t, r.kinds(), NumbersSkipped)
	})
}

func TestAGapThatStaysOpenStopsAll(t *testing.T) {
	story(t, Config[*Event]{GapTimeout: time.Second, GapPolicy: dispatcher.Stop}, func(t *testing.T, r *rig) {
		r.offer(ev("a3", "a=3"))
		r.sleep(time.Second)
		err := r.seq.Offer(t.Context(), ev("b1", "b=1"), r.done)
		require.ErrorIs(t, err, ErrStopped)
		require.ErrorIs(t, err, ErrGap)
		require.ErrorIs(t, err, ErrNoReplayer)
	})
}

func TestAFullBufferAsksAtOnceAndTheStoreTakesOver(t *testing.T) {
	a := series("a", 1, 9)
	source := &archive{events: a[:0]}
	story(t, Config[*Event]{Replayer: source, GapTimeout: time.Minute, MaxEarly: 3}, func(t *testing.T, r *rig) {
		r.offer(a[1:4]...)
		assert.Empty(t, source.requests())
		source.events = a[:1]
		r.offer(a[4:]...)
		assert.Equal(t, []Range{{Stream: key("a"), From: 1, To: 1}}, source.requests())
		assert.Equal(t, []string{"a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9"}, r.ran())
		assert.Empty(t, r.parked())
		assert.Zero(t, r.seq.Stats().Early)
	})
}

// A source with a window has it filled neither by events that wait nor by their
// copies: with one more than may wait, the store takes the stream's.
func TestASourceLimitsWhatWaits(t *testing.T) {
	a := series("a", 1, 6)
	for name, test := range map[string]struct {
		limits []int
		wait   []*Event
		more   *Event
	}{
		"events": {[]int{2}, a[1:3], a[3]},
		"copies": {[]int{4}, []*Event{a[1], a[1], a[2], a[1]}, a[2]},
		"lower":  {[]int{2, 3}, a[1:3], a[1]},
		"none":   {[]int{0}, nil, a[3]},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, Config[*Event]{GapTimeout: time.Hour, MaxEarly: 3}, func(t *testing.T, r *rig) {
				for _, n := range test.limits {
					r.seq.LimitEarly(n)
				}
				r.offer(test.wait...)
				assert.Equal(t, len(test.wait), r.seq.Stats().Early)
				assert.Zero(t, r.seq.Stats().Held)
				r.offer(test.more)
				assert.Zero(t, r.seq.Stats().Early)
				assert.EqualValues(t, len(test.wait)+1, r.seq.Stats().Held, "all know that the store has them")
				r.offer(a...)
				assert.Equal(t, []string{"a1", "a2", "a3", "a4", "a5", "a6"}, r.ran())
				assert.Empty(t, r.parked())
				assert.Zero(t, r.seq.Stats().Early)
				assert.Zero(t, r.seq.Stats().EarlyBytes)
			})
		})
	}
}

// However many wait, what is missing has its time to come.
func TestNoPolicyBeforeTheGraceTimeIsOver(t *testing.T) {
	for policy, after := range map[dispatcher.FailurePolicy][]string{
		dispatcher.Park:       {},
		dispatcher.DeadLetter: {"a2", "a3", "a4"},
		dispatcher.Stop:       {},
	} {
		t.Run(policy.String(), func(t *testing.T) {
			cfg := Config[*Event]{GapTimeout: 10 * time.Second, GapPolicy: policy, MaxEarly: 2}
			story(t, cfg, func(t *testing.T, r *rig) {
				r.offer(series("a", 2, 4)...)
				r.sleep(9 * time.Second)
				r.offer(ev("a1", "a=1"))
				assert.Equal(t, []string{"a1", "a2", "a3", "a4"}, r.ran())
				assert.Empty(t, r.parked())
				require.NoError(t, r.seq.Err())
			})
			story(t, cfg, func(t *testing.T, r *rig) {
				r.offer(series("a", 2, 4)...)
				r.sleep(10 * time.Second)
				assert.Equal(t, after, r.ran())
				assert.Equal(t, policy == dispatcher.Stop, r.seq.Err() != nil)
			})
		})
	}
}

func TestAFailedEventParksItsStreams(t *testing.T) {
	story(t, Config[*Event]{}, func(t *testing.T, r *rig) {
		r.failing("x", errors.New("no such account"))
		r.offer(ev("a1", "a=1"), ev("x", "a=2, b=1"), ev("a3", "a=3"), ev("b2", "b=2, c=1"), ev("c2", "c=2"), ev("d1", "d=1"))
		assert.ElementsMatch(t, []string{"a1", "d1"}, r.ran())
		parked := r.parked()
		require.Len(t, parked, 1)
		p := parked[0]
		assert.Equal(t, Failure, p.Reason)
		assert.Equal(t, "x", p.Events[0].ID)
		assert.Equal(t, 1, p.Events[0].Attempts)
		assert.Contains(t, p.Error, "no such account")
		assert.Equal(t, "[a=2 b=1 c=1]", fmt.Sprint(p.Streams))
		for _, id := range []string{"x", "a3", "b2", "c2"} {
			assert.Equal(t, []Result{Held}, r.outcome(id), id)
		}

		t.Log("resumed, it fails again")
		require.NoError(t, r.seq.Resume(t.Context(), key("c")))
		parked = r.parked()
		require.Len(t, parked, 1)
		assert.Equal(t, 2, parked[0].Events[0].Attempts)
		assert.Len(t, r.ran(), 2)

		t.Log("mended, all goes on in order")
		r.failing("x", nil)
		r.offer(ev("a4", "a=4"))
		require.NoError(t, r.seq.Resume(t.Context(), key("a")))
		assert.Empty(t, r.parked())
		ran := r.ran()[2:]
		assert.Len(t, ran, 5)
		assert.Equal(t, "x", ran[0])
		assertOrder(t, ran, "x", "a3", "a4")
		assertOrder(t, ran, "x", "b2", "c2")
		job := job(t, r.store, "a=2")
		assert.Equal(t, StatusApplied, job.Status)
		assert.Equal(t, 3, job.Attempts)
	})
}

func assertOrder(t *testing.T, list []string, ids ...string) {
	t.Helper()
	at := -1
	for _, id := range ids {
		i := indexOf(list, id)
		assert.Greater(t, i, at, "%s in %v", id, list)
		at = i
	}
}

func indexOf(list []string, id string) int {
	for i, have := range list {
		if have == id {
			return i
		}
	}
	return -1
}

func TestAParkedEventIsSkipped(t *testing.T) {
	story(t, Config[*Event]{}, func(t *testing.T, r *rig) {
		r.failing("a1", errors.New("bad"))
		r.offer(series("a", 1, 3)...)
		require.NoError(t, r.seq.Skip(t.Context(), key("a")))
		assert.Equal(t, []string{"a2", "a3"}, r.ran())
		job := job(t, r.store, "a=1")
		assert.Equal(t, StatusDeadLettered, job.Status)
		assert.Contains(t, job.Error, "bad")
		assert.Equal(t, 1, job.Attempts)
	})
}

func TestAParkedStreamIsDropped(t *testing.T) {
	story(t, Config[*Event]{}, func(t *testing.T, r *rig) {
		r.failing("a1", errors.New("bad"))
		r.offer(series("a", 1, 100)...)
		require.NoError(t, r.seq.Drop(t.Context(), key("a")))
		assert.Empty(t, r.ran())
		assert.Empty(t, r.parked())
		r.offer(ev("a101", "a=101"))
		assert.Equal(t, []string{"a101"}, r.ran())
	})
}

func TestWhatIsParkedSurvivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, NewMemory())
		r.start(Config[*Event]{})
		r.failing("a2", errors.New("bad"))
		r.offer(series("a", 1, 200)...)
		r.stop()

		r.start(Config[*Event]{})
		assert.Len(t, r.parked(), 1)
		r.offer(ev("a201", "a=201"), ev("a2", "a=2"), ev("a1", "a=1"))
		assert.Equal(t, []Result{Held}, r.outcome("a201"))
		assert.Equal(t, []Result{Held, Held}, r.outcome("a2"))
		assert.Equal(t, []Result{Applied, Duplicate}, r.outcome("a1"))
		r.failing("a2", nil)
		require.NoError(t, r.seq.Resume(t.Context(), key("a")))
		require.NoError(t, r.seq.Drain(t.Context()))
		ran := r.ran()
		require.Len(t, ran, 201)
		for i, e := range series("a", 1, 201) {
			assert.Equal(t, e.ID, ran[i])
		}
		r.stop()
	})
}

func TestAFailedEventIsSkippedByPolicy(t *testing.T) {
	story(t, Config[*Event]{Failure: dispatcher.DeadLetter}, func(t *testing.T, r *rig) {
		r.failing("a2", errors.New("refused"))
		r.offer(series("a", 1, 3)...)
		assert.Equal(t, []string{"a1", "a3"}, r.ran())
		assert.Equal(t, []Result{DeadLettered}, r.outcome("a2"))
		job := job(t, r.store, "a=2")
		assert.Equal(t, StatusDeadLettered, job.Status)
		r.offer(ev("a2", "a=2"))
		assert.Equal(t, []Result{DeadLettered, Duplicate}, r.outcome("a2"))
	})
}

func TestAFailedEventStopsAllByPolicy(t *testing.T) {
	story(t, Config[*Event]{Failure: dispatcher.Stop}, func(t *testing.T, r *rig) {
		r.failing("a1", errors.New("disk full"))
		r.offer(ev("a1", "a=1"))
		require.ErrorIs(t, r.seq.Offer(t.Context(), ev("b1", "b=1"), nil), ErrStopped)
		require.ErrorIs(t, r.seq.Drain(t.Context()), ErrStopped)
	})
}

func TestAttemptsAreRepeatedInPlace(t *testing.T) {
	cfg := Config[*Event]{}
	cfg.Dispatcher.MaxAttempts = 3
	story(t, cfg, func(t *testing.T, r *rig) {
		r.failing("a1", errors.New("later"))
		r.offer(series("a", 1, 2)...)
		r.sleep(150 * time.Millisecond)
		r.failing("a1", nil)
		r.sleep(time.Second)
		assert.Equal(t, []string{"a1", "a2"}, r.ran())
		job := job(t, r.store, "a=1")
		assert.Equal(t, 3, job.Attempts)
	})
}

func TestAnEndedStreamLeavesMemory(t *testing.T) {
	story(t, Config[*Event]{}, func(t *testing.T, r *rig) {
		r.offer(ev("a1", "a=1"), ev("a3", "a=3"), ev("a2", "a=2;end"))
		assert.Equal(t, []string{"a1", "a2"}, r.ran())
		assert.Equal(t, []Result{Refused}, r.outcome("a3"), "it is after the end")
		assert.Zero(t, r.seq.Stats().Streams)
		r.offer(ev("a4", "a=4"), ev("a2", "a=2;end"))
		assert.Equal(t, []Result{Refused}, r.outcome("a4"))
		assert.Equal(t, []Result{Applied, Duplicate}, r.outcome("a2"))
	})
}

func TestIdleStreamsLeaveMemoryAndComeBack(t *testing.T) {
	story(t, Config[*Event]{MaxActive: 2, IdleTTL: time.Minute}, func(t *testing.T, r *rig) {
		r.offer(ev("a1", "a=1"), ev("b1", "b=1"), ev("c1", "c=1"))
		assert.Equal(t, 2, r.seq.Stats().Streams)
		r.offer(ev("a2", "a=2"), ev("a1", "a=1"))
		assert.ElementsMatch(t, []string{"a1", "b1", "c1", "a2"}, r.ran())
		r.sleep(2 * time.Minute)
		assert.Equal(t, 0, r.seq.Stats().Streams)
		r.offer(ev("b2", "b=2"))
		assert.Equal(t, []Result{Applied}, r.outcome("b2"))
	})
}

func TestEventsOfOneStreamRunSideBySideIfTheirKeysLetThem(t *testing.T) {
	cfg := Config[*Event]{Keys: func(job Job[*Event], claim *lockkeys.Claim) error {
		e := job.Event
		claim.Exclusive(key(e.ID))
		return nil
	}}
	story(t, cfg, func(t *testing.T, r *rig) {
		open := r.gate("a1")
		r.offer(series("a", 1, 3)...)
		assert.ElementsMatch(t, []string{"a2", "a3"}, r.ran())
		state, err := begin(t, r.store).Acquire(t.Context(), []lockkeys.Key{key("a")})
		require.NoError(t, err)
		assert.Equal(t, uint64(0), state[0].Last)
		assert.Equal(t, Spans{{From: 2, To: 3}}, state[0].Done)
		open()
		synctest.Wait()
	})
}

func TestAnEventWithoutLockKeysFailsByPolicy(t *testing.T) {
	cfg := Config[*Event]{Keys: func(job Job[*Event], claim *lockkeys.Claim) error {
		e := job.Event
		if e.ID == "a1" {
			return errors.New("unreadable")
		}
		claim.Exclusive(key("k"))
		return nil
	}, Failure: dispatcher.DeadLetter}
	story(t, cfg, func(t *testing.T, r *rig) {
		r.offer(series("a", 1, 2)...)
		assert.Equal(t, []Result{DeadLettered}, r.outcome("a1"))
		assert.Equal(t, []string{"a2"}, r.ran())
	})
}

func TestShutdownGivesBackWhatHasNotRun(t *testing.T) {
	story(t, Config[*Event]{Dispatcher: dispatcher.Config[Job[*Event]]{Workers: 1}}, func(t *testing.T, r *rig) {
		open := r.gate("a1")
		r.offer(ev("a1", "a=1"), ev("a2", "a=2"), ev("b2", "b=2"))
		closed := make(chan error)
		go func() { closed <- r.seq.Close() }()
		synctest.Wait()
		open()
		require.NoError(t, <-closed)
		assert.Equal(t, []Result{Applied}, r.outcome("a1"))
		assert.Equal(t, []Result{Unfinished}, r.outcome("a2"))
		assert.Equal(t, []Result{Unfinished}, r.outcome("b2"))
		require.ErrorIs(t, r.seq.Offer(t.Context(), ev("b1", "b=1"), nil), ErrClosed)
	})
}
