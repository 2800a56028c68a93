package ordering

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

func command(id, payload string) *Event { return &Event{ID: id, Payload: []byte(payload)} }

// counter answers each command with how many it has run before.
type counter struct{ runs int }

func (c *counter) handle(_ context.Context, job Job[*Event]) error {
	c.runs++
	if string(job.Event.Payload) == "bad" {
		return errors.New("no such account")
	}
	job.Reply([]byte(strconv.Itoa(c.runs)))
	return nil
}

// TestACommandIsAppliedOnce, however often it is sent, also after a restart, and
// each time the sender gets the same reply. The same ID with other contents is
// refused.
func TestACommandIsAppliedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c := NewMemory(), &counter{}
		r := newRig(t, store)
		cfg := Config[*Event]{Handler: c.handle}
		r.start(cfg)
		o, err := r.seq.Do(t.Context(), command("pay-1", "10"))
		require.NoError(t, err)
		assert.Equal(t, Outcome{Result: Applied, Reply: []byte("1")}, o)
		o, err = r.seq.Do(t.Context(), command("pay-1", "10"))
		require.NoError(t, err)
		assert.Equal(t, Outcome{Result: Duplicate, Status: StatusApplied, Reply: []byte("1")}, o)
		o, err = r.seq.Do(t.Context(), command("pay-1", "99"))
		var conflict *ConflictError
		require.ErrorAs(t, err, &conflict)
		assert.Equal(t, "pay-1", conflict.Other)
		assert.EqualError(t, err, `ordering: command "pay-1": its ID is that of another command with other contents, which was applied: give a new command a new ID`)
		assert.Equal(t, Refused, o.Result)
		r.stop()
		r.start(cfg)
		o, err = r.seq.Do(t.Context(), command("pay-1", "10"))
		require.NoError(t, err)
		assert.Equal(t, []byte("1"), o.Reply)
		assert.Equal(t, 1, c.runs)
		r.stop()
	})
}

// TestCopiesOfACommandShareItsReply: they come while the first one runs.
func TestCopiesOfACommandShareItsReply(t *testing.T) {
	c := &counter{}
	gate := make(chan struct{})
	cfg := Config[*Event]{Handler: func(ctx context.Context, job Job[*Event]) error { <-gate; return c.handle(ctx, job) }}
	synctest.Test(t, func(t *testing.T) {
		gate = make(chan struct{})
		r := newRig(t, NewMemory())
		r.start(cfg)
		replies := make(chan string, 9)
		for range 3 {
			go func() {
				o, err := r.seq.Do(t.Context(), command("pay-1", "10"))
				replies <- fmt.Sprint(string(o.Reply), err)
			}()
		}
		synctest.Wait()
		other := make(chan error, 1)
		go func() {
			_, err := r.seq.Do(t.Context(), command("pay-1", "11"))
			other <- err
		}()
		synctest.Wait()
		require.Empty(t, other, "it is not known yet whether the first one has the ID")
		close(gate)
		for range 3 {
			assert.Equal(t, "1<nil>", <-replies)
		}
		require.ErrorIs(t, <-other, ErrContradiction)
		r.stop()
	})
}

// TestAFailedCommand: under Park nothing of it is kept and a repeat runs again;
// under DeadLetter the failure is recorded, and repeats get it. Its lock keys are
// free in both cases.
func TestAFailedCommand(t *testing.T) {
	for policy, want := range map[dispatcher.FailurePolicy]struct {
		first, second Result
		runs          int
	}{
		dispatcher.Park:       {Failed, Failed, 2},
		dispatcher.DeadLetter: {DeadLettered, Duplicate, 1},
	} {
		t.Run(policy.String(), func(t *testing.T) {
			c := &counter{}
			story(t, Config[*Event]{Handler: c.handle, FailureFor: func(Job[*Event], error) dispatcher.FailurePolicy { return policy },
				Keys: func(_ Job[*Event], claim *lockkeys.Claim) error { claim.Exclusive(key("client")); return nil }},
				func(t *testing.T, r *rig) {
					o, err := r.seq.Do(t.Context(), command("pay-1", "bad"))
					assert.Equal(t, want.first, o.Result)
					require.ErrorContains(t, err, "no such account")
					o, err = r.seq.Do(t.Context(), command("pay-1", "bad"))
					assert.Equal(t, want.second, o.Result)
					require.ErrorContains(t, err, "no such account")
					assert.Equal(t, want.runs, c.runs)
					if want.second == Duplicate {
						var given *GivenUpError
						require.ErrorAs(t, err, &given)
						assert.Equal(t, StatusDeadLettered, o.Status)
					}
					_, err = r.seq.Do(t.Context(), command("pay-2", "10"))
					require.NoError(t, err)
					assert.Empty(t, r.parked())
				})
		})
	}
}

func TestAReplyThatIsTooLargeIsAFailure(t *testing.T) {
	cfg := Config[*Event]{Handler: func(_ context.Context, job Job[*Event]) error {
		job.Reply(make([]byte, MaxReply+1))
		return nil
	}}
	story(t, cfg, func(t *testing.T, r *rig) {
		o, err := r.seq.Do(t.Context(), command("pay-1", "10"))
		assert.Equal(t, Failed, o.Result)
		require.ErrorIs(t, err, ErrReply)
	})
}

// TestCommandsAndEventsShareTheirLocks: they run in the order of acceptance if
// their keys conflict.
func TestCommandsAndEventsShareTheirLocks(t *testing.T) {
	cfg := Config[*Event]{Keys: func(_ Job[*Event], claim *lockkeys.Claim) error { claim.Exclusive(key("client")); return nil }}
	story(t, cfg, func(t *testing.T, r *rig) {
		open := r.gate("a1")
		r.offer(ev("a1", "a=1"), command("check", ""), ev("b1", "b=1"))
		assert.Empty(t, r.ran())
		open()
		assert.Equal(t, []string{"a1", "check", "b1"}, r.ran())
	})
}

func TestBadCommands(t *testing.T) {
	story(t, Config[*Event]{}, func(t *testing.T, r *rig) {
		err := r.seq.Offer(t.Context(), &Event{}, nil)
		require.ErrorIs(t, err, ErrNoPosition)
		require.ErrorContains(t, err, "or, for a command, an ID")
		require.ErrorIs(t, r.seq.Offer(t.Context(), command(string(make([]byte, MaxID+1)), ""), nil), ErrLongID)
		require.ErrorIs(t, r.seq.Offer(t.Context(), command("\xff", ""), nil), ErrText)
	})
}

// TestDoSaysWhatIsParked: it does not wait in silence for an event that may never
// run.
func TestDoSaysWhatIsParked(t *testing.T) {
	story(t, Config[*Event]{}, func(t *testing.T, r *rig) {
		r.failing("a1", errors.New("no such account"))
		r.offer(ev("a1", "a=1"))
		o, err := r.seq.Do(t.Context(), ev("a2", "a=2"))
		assert.Equal(t, Held, o.Result)
		var held *HeldError
		require.ErrorAs(t, err, &held)
		assert.Equal(t, "a1", held.Parking.Events[0].ID)
		assert.ErrorContains(t, err, "no such account")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		open := r.gate("b1")
		_, err = r.seq.Do(ctx, ev("b1", "b=1"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		open()
	})
}

// TestReadsShareTheirLocks: a read waits for what conflicts with it, keeps what
// comes later waiting, and writes nothing.
func TestReadsShareTheirLocks(t *testing.T) {
	story(t, Config[*Event]{}, func(t *testing.T, r *rig) {
		open := r.gate("a1")
		r.offer(ev("a1", "a=1"))
		read := make(chan []string, 2)
		shared := func(c *lockkeys.Claim) { c.Shared(key("a")) }
		for range 2 {
			go func() {
				assert.NoError(t, r.seq.Read(t.Context(), shared, func(context.Context) error {
					time.Sleep(time.Second)
					read <- r.ranNow()
					return nil
				}))
			}()
		}
		synctest.Wait()
		r.offer(ev("a2", "a=2"))
		open()
		began := time.Now()
		assert.Equal(t, []string{"a1"}, <-read)
		assert.Equal(t, []string{"a1"}, <-read)
		assert.Equal(t, time.Second, time.Since(began), "side by side")
		assert.Equal(t, []string{"a1", "a2"}, r.ran())
		require.ErrorContains(t, r.seq.Read(t.Context(), shared, func(context.Context) error { panic("bad") }), "bad")
		require.Error(t, r.seq.Read(t.Context(), nil, nil))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		open = r.gate("a3")
		r.offer(ev("a3", "a=3"))
		require.ErrorIs(t, r.seq.Read(ctx, shared, func(context.Context) error { return nil }), context.DeadlineExceeded)
		open()
	})
}

// ranNow is ran for a goroutine of the story's own.
func (r *rig) ranNow() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{}, r.runs...)
}

// TestAFailureSpreadsAsFarAsItMay: one of 60 accounts fails, with random
// transfers. Without a bound all are closed; with one, what has failed is given
// up, once, with its name, or all stops.
func TestAFailureSpreadsAsFarAsItMay(t *testing.T) {
	const accounts, transfers = 60, 600
	for name, cfg := range map[string]Config[*Event]{
		"without a bound": {},
		"given up":        {MaxSpread: 10},
		"stopped":         {MaxSpread: 10, Spread: dispatcher.Stop},
	} {
		t.Run(name, func(t *testing.T) {
			var dead []string
			var log bytes.Buffer
			cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
			cfg.DeadLetter = func(_ context.Context, e *Event, err error) error {
				dead = append(dead, e.ID)
				return nil
			}
			story(t, cfg, func(t *testing.T, r *rig) {
				random := rand.New(rand.NewPCG(1, 2))
				var next [accounts]uint64
				r.failing("e0", errors.New("no such account"))
				for i := range transfers {
					a := random.IntN(accounts)
					b := (a + 1 + random.IntN(accounts-1)) % accounts
					next[a]++
					next[b]++
					e := ev(fmt.Sprintf("e%d", i), fmt.Sprintf("s%d=%d, s%d=%d", a, next[a], b, next[b]))
					if r.seq.Offer(t.Context(), e, r.done) != nil {
						break
					}
					synctest.Wait()
				}
				r.sleep(time.Minute)
				switch name {
				case "without a bound":
					assert.Len(t, r.parked()[0].Streams, accounts)
					assert.LessOrEqual(t, bytes.Count(log.Bytes(), []byte("streams parked")), 7, "a line for each doubling")
				case "given up":
					assert.Equal(t, []string{"e0"}, dead)
					assert.Empty(t, r.parked())
					assert.Len(t, r.ran(), transfers-1)
				case "stopped":
					var spread *SpreadError
					require.ErrorAs(t, r.seq.Err(), &spread)
					assert.Equal(t, "e0", spread.Parking.Events[0].ID)
					assert.Empty(t, dead)
				}
			})
		})
	}
}

// TestOperatorsAreNamed: who has given something up, and why, is kept, and the
// event is a dead letter.
func TestOperatorsAreNamed(t *testing.T) {
	var dead []string
	var log bytes.Buffer
	cfg := Config[*Event]{Logger: slog.New(slog.NewTextHandler(&log, nil)), DeadLetter: func(_ context.Context, e *Event, err error) error {
		dead = append(dead, e.ID+": "+err.Error())
		return nil
	}}
	story(t, cfg, func(t *testing.T, r *rig) {
		r.failing("a1", errors.New("no such account"))
		r.offer(ev("a1", "a=1"), ev("b3", "b=3"))
		r.sleep(time.Minute)
		ctx := dispatcher.WithOperator(t.Context(), "ann", "case 17")
		require.NoError(t, r.seq.Skip(ctx, key("a")))
		r.sleep(time.Second)
		require.NoError(t, r.seq.Skip(ctx, key("b")))
		assert.Equal(t, []string{"a1: case 17: no such account"}, dead)
		list, err := r.seq.Decisions(t.Context(), time.Time{}, 10)
		require.NoError(t, err)
		require.Len(t, list, 2)
		assert.Equal(t, []Status{StatusSkipped, StatusDeadLettered}, []Status{list[0].Status, list[1].Status})
		for _, job := range list {
			assert.Equal(t, "ann", job.By)
			assert.Contains(t, job.Reason, "case 17")
		}
		assert.Equal(t, "no such account", list[1].Error)
		r.offer(ev("a1", "a=1")) // nobody is to take it for applied
		assert.Equal(t, []Result{Held, Duplicate}, r.outcome("a1"))
		assert.Contains(t, log.String(), "an event came again that was given up")
	})
}

// TestEventsAreDecodedOnce: keys, handler and policy have the value.
func TestEventsAreDecodedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decoded, sum := 0, 0
		seq, err := New(t.Context(), Config[int]{
			Store:      NewMemory(),
			Dispatcher: dispatcher.Config[Job[int]]{MaxPendingBytes: 1 << 20, Size: func(job Job[int]) int64 { return int64(job.Value) }},
			Decode: func(e *Event) (int, error) {
				decoded++
				return strconv.Atoi(string(e.Payload))
			},
			Keys: func(job Job[int], claim *lockkeys.Claim) error {
				claim.Exclusive(key(strconv.Itoa(job.Value)))
				return nil
			},
			Handler:    func(_ context.Context, job Job[int]) error { sum += job.Value; return nil },
			FailureFor: func(job Job[int], err error) dispatcher.FailurePolicy { return dispatcher.DeadLetter },
		})
		require.NoError(t, err)
		var outcomes []Result
		for n, payload := range []string{"7", "bad", "8"} {
			e := ev("", fmt.Sprintf("a=%d", n+1))
			e.Payload = []byte(payload)
			require.NoError(t, seq.Offer(t.Context(), e, func(_ *Event, o Outcome) { outcomes = append(outcomes, o.Result) }))
			synctest.Wait()
		}
		assert.Equal(t, []Result{Applied, DeadLettered, Applied}, outcomes)
		assert.Equal(t, []int{3, 15}, []int{decoded, sum})
		require.NoError(t, seq.Close())
		_, err = New(t.Context(), Config[int]{Store: NewMemory(), Handler: func(context.Context, Job[int]) error { return nil }})
		require.ErrorContains(t, err, "Decode is nil")
	})
}

// TestAStoreThatLostCommits: a standby was promoted that lagged behind. The next
// commit is refused, and the sequencer stops and says so; after a restart all is
// asked for again, in order.
func TestAStoreThatLostCommits(t *testing.T) {
	store := &stub{Memory: NewMemory()}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, store)
		r.start(Config[*Event]{})
		r.offer(series("a", 1, 10)...)
		store.commit = func(context.Context, Record) error { return nil } // and lost
		r.offer(series("a", 11, 15)...)
		store.commit = nil
		r.offer(series("a", 16, 16)...)
		var lost *LostError
		require.ErrorAs(t, r.seq.Err(), &lost)
		assert.Equal(t, []uint64{15, 10}, []uint64{lost.Known, lost.Has})
		r.stop()
		assert.Equal(t, []Result{Unfinished}, r.outcome("a16"))
		r.runs = nil
		r.start(Config[*Event]{GapTimeout: time.Second, Replayer: &archive{events: series("a", 1, 20)}})
		r.offer(series("a", 16, 17)...)
		r.sleep(time.Minute)
		assert.Equal(t, []string{"a11", "a12", "a13", "a14", "a15", "a16", "a17"}, r.ran())
		r.stop()
	})
}

// TestWhoFailedIsNamed: an error of Decode or Keys says so, and of which event.
func TestWhoFailedIsNamed(t *testing.T) {
	failed := errors.New("no amount")
	for name, cfg := range map[string]Config[*Event]{
		"Decode": {Decode: func(*Event) (*Event, error) { return nil, failed }},
		"Keys":   {Keys: func(Job[*Event], *lockkeys.Claim) error { return failed }},
	} {
		story(t, cfg, func(t *testing.T, r *rig) {
			_, err := r.seq.Do(t.Context(), command("k1", ""))
			require.ErrorIs(t, err, failed)
			require.EqualError(t, err, "ordering: "+name+` of event "k1": no amount`)
		})
	}
}
