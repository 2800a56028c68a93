package dispatcher_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
)

// chains is a dispatcher with Together, and what was committed by it.
type chains struct {
	t         *testing.T
	d         *disp
	log       bytes.Buffer
	begun     int
	commit    func(call int) error // nil: nil
	committed []string             // the messages of each transaction; "x alone" without one
	results   map[string]error
}

type txKey struct{}

// tx is a transaction of names.
type tx struct{ names []string }

// newChains starts a dispatcher with one worker, which is busy for a second, so
// that what is submitted meanwhile can gather.
func newChains(t *testing.T, cfg config) *chains {
	c := &chains{t: t, results: make(map[string]error)}
	if cfg.Workers == 0 {
		cfg.Workers = 1
	}
	cfg.Logger = slog.New(slog.NewTextHandler(&c.log, nil))
	cfg.Handler = func(ctx context.Context, j *job) error {
		if err := runJob(ctx, j); err != nil {
			return err
		}
		if tx, ok := ctx.Value(txKey{}).(*tx); ok {
			tx.names = append(tx.names, j.name)
		} else {
			c.committed = append(c.committed, j.name+" alone")
		}
		return nil
	}
	if cfg.Together == nil {
		cfg.Together = c.together
	}
	c.d = start(t, cfg)
	submit(t, c.d, newJob("busy", takes(time.Second, nil)))
	synctest.Wait()
	return c
}

func (c *chains) together(ctx context.Context, run func(context.Context) error) error {
	c.begun++
	call := c.begun
	var t tx
	if err := run(context.WithValue(ctx, txKey{}, &t)); err != nil {
		return err
	}
	if c.commit != nil {
		if err := c.commit(call); err != nil {
			return err
		}
	}
	c.committed = append(c.committed, strings.Join(t.names, " "))
	return nil
}

func (c *chains) submit(ctx context.Context, jobs ...*job) {
	for _, j := range jobs {
		require.NoError(c.t, c.d.Submit(ctx, j, dispatcher.OnDone(func(j *job, err error) {
			require.NotContains(c.t, c.results, j.name)
			c.results[j.name] = err
		})))
	}
}

// gathered runs five messages of one key, of which some do something special.
func (c *chains) gathered(special map[string]func(context.Context) error) {
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		c.submit(c.t.Context(), newJob(name, special[name], "k"))
	}
	drain(c.t, c.d)
	require.Equal(c.t, "busy alone", c.committed[0])
	c.committed = c.committed[1:]
}

func (c *chains) succeeded() {
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		require.Contains(c.t, c.results, name)
		require.NoError(c.t, c.results[name])
	}
}

func TestChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChains(t, config{MaxBatch: 3})
		c.gathered(nil)
		c.succeeded()
		require.Equal(t, []string{"a b c", "d e"}, c.committed)
		s := c.d.Stats()
		require.EqualValues(t, 2, s.Chains)
		require.Zero(t, s.Undone)
		require.EqualValues(t, 6, s.Started)
	})
	// Transfers that meet, and what is unrelated beside them.
	synctest.Test(t, func(t *testing.T) {
		c := newChains(t, config{})
		submit(t, c.d, newJob("1", nil, "a", "b"), newJob("2", nil, "x"), newJob("3", nil, "b", "c"),
			newJob("4", nil, "c"), newJob("5", nil, "c", "x"), newJob("6", nil, "a"))
		drain(t, c.d)
		require.Equal(t, []string{"busy alone", "1 3 4", "2 5", "6 alone"}, c.committed[:4:4])
	})
}

// TestTogetherReturnsBeforeRun: a Together that leaves run to a goroutine and does not
// wait for it has made nothing final, and no handler runs beside others because of it.
func TestTogetherReturnsBeforeRun(t *testing.T) {
	for name, c := range map[string]struct {
		run, returns time.Duration // when
		handled      []string
	}{
		"run is under way":     {0, time.Second / 2, []string{"busy", "a", "a", "b", "c", "d", "e"}},
		"run has not begun":    {time.Second / 2, 0, []string{"busy", "a", "b", "c", "d", "e"}},
		"run comes much later": {time.Hour, 0, []string{"busy", "a", "b", "c", "d", "e"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var chains *chains
				var late error
				returned := make(chan struct{})
				chains = newChains(t, config{Together: func(ctx context.Context, run func(context.Context) error) error {
					if chains.begun++; chains.begun > 1 {
						return chains.together(ctx, run)
					}
					go func() {
						defer close(returned)
						time.Sleep(c.run)
						late = run(context.WithValue(ctx, txKey{}, new(tx)))
					}()
					time.Sleep(c.returns)
					return nil
				}})
				running, handled := 0, []string{"busy"}
				special := map[string]func(context.Context) error{}
				for _, name := range []string{"a", "b", "c", "d", "e"} {
					special[name] = func(context.Context) error {
						running++
						handled = append(handled, name)
						require.Equal(t, 1, running)
						time.Sleep(time.Second)
						running--
						return nil
					}
				}
				chains.gathered(special)
				chains.succeeded()
				<-returned
				require.Equal(t, c.handled, handled)
				require.Equal(t, []string{"a alone", "b", "c", "d", "e alone"}, chains.committed)
				require.Contains(t, chains.log.String(), "chain undone")
				if c.run > 0 {
					require.ErrorContains(t, late, "has not waited for run")
				}
			})
		})
	}
}

// TestChainUndone: when a handler of a chain fails, however it does, those that ran
// run again by themselves, in order, and what it got to is told once, with the
// attempts that it had by itself. What is behind goes on in chains.
func TestChainUndone(t *testing.T) {
	for name, fails := range map[string]func(context.Context) error{
		"error":   func(context.Context) error { return errBoom },
		"panic":   func(context.Context) error { panic(errBoom) },
		"Goexit":  func(context.Context) error { runtime.Goexit(); return nil },
		"Release": func(ctx context.Context) error { return errors.Join(errBoom, dispatcher.Release(ctx, key("k"))) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newChains(t, config{MaxAttempts: 2})
				var attempts []int
				var started []uint64
				note := func(context.Context) error { started = append(started, c.d.Stats().Started); return nil }
				c.gathered(map[string]func(context.Context) error{"a": note, "b": note, "e": note, "c": func(ctx context.Context) error {
					info, _ := dispatcher.InfoFrom(ctx)
					attempts = append(attempts, info.Attempt)
					return fails(ctx)
				}})
				require.IsNonDecreasing(t, started, "what is less would be taken for a counter that begins anew")
				require.Equal(t, []string{"a alone", "b alone", "d e"}, c.committed)
				require.Equal(t, []int{1, 1, 2}, attempts)
				for name, err := range c.results {
					require.Equal(t, name == "c", err != nil, name)
				}
				s := c.d.Stats()
				require.EqualValues(t, 2, s.Chains)
				require.EqualValues(t, 1, s.Undone)
				require.NotContains(t, c.log.String(), "chain undone", "the handler's error is told when it runs by itself")
			})
		})
	}
}

// TestChainNotCommitted: nobody is told of the work of a chain whose commit fails,
// and each message runs again by itself; the log says why.
func TestChainNotCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChains(t, config{MaxBatch: 3})
		c.commit = func(call int) error {
			if call == 1 {
				require.Empty(t, c.results)
				return errBoom
			}
			return nil
		}
		c.gathered(nil)
		c.succeeded()
		require.Equal(t, []string{"a alone", "b alone", "c alone", "d e"}, c.committed)
		require.Contains(t, c.log.String(), "chain undone")
		require.Contains(t, c.log.String(), "boom")
	})
}

// TestTogetherMisbehaves: messages run by themselves, and the log says why.
func TestTogetherMisbehaves(t *testing.T) {
	for text, together := range map[string]dispatcher.Together{
		"has not called run":   func(context.Context, func(context.Context) error) error { return nil },
		"has called run twice": func(ctx context.Context, run func(context.Context) error) error { _ = run(ctx); return run(ctx) },
		"a bug":                func(context.Context, func(context.Context) error) error { panic("a bug") },
	} {
		t.Run(text, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newChains(t, config{Together: together, MaxBatch: 2})
				c.gathered(nil)
				c.succeeded()
				require.Equal(t, "e alone", c.committed[len(c.committed)-1])
				require.Contains(t, c.log.String(), text)
			})
		})
	}
	// It hides the error of a handler.
	synctest.Test(t, func(t *testing.T) {
		c := newChains(t, config{Together: func(ctx context.Context, run func(context.Context) error) error { _ = run(ctx); return nil }})
		c.gathered(map[string]func(context.Context) error{"b": takes(0, errBoom)})
		require.ErrorIs(t, c.results["b"], errBoom)
		require.NoError(t, c.results["a"])
	})
}

// TestChainTime: a chain takes no further message once it has run for long.
func TestChainTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChains(t, config{ChainTime: time.Second})
		slow := takes(400*time.Millisecond, nil)
		c.gathered(map[string]func(context.Context) error{"a": slow, "b": slow, "c": slow, "d": slow, "e": slow})
		require.Equal(t, []string{"a b c", "d e"}, c.committed)
		c.succeeded()
	})
}

// TestChainEndsBefore: a handler that wants to run by itself undoes nothing.
func TestChainEndsBefore(t *testing.T) {
	for _, name := range []string{"a", "c", "e"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newChains(t, config{})
				calls := 0
				c.gathered(map[string]func(context.Context) error{name: func(ctx context.Context) error {
					if calls++; ctx.Value(txKey{}) != nil {
						return fmt.Errorf("not now: %w", dispatcher.ErrAlone)
					}
					return nil
				}})
				c.succeeded()
				require.Equal(t, 2, calls)
				require.Equal(t, map[string][]string{
					"a": {"a alone", "b c d e"}, "c": {"a b", "c alone", "d e"}, "e": {"a b c d", "e alone"},
				}[name], c.committed)
				for name, err := range c.results {
					require.NoError(t, err, name)
				}
			})
		})
	}
}

// TestChainTimeout: the time limit is that of each attempt, not of the chain.
func TestChainTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChains(t, config{ChainTime: time.Hour, Timeout: time.Second})
		slow := func(ctx context.Context) error {
			time.Sleep(900 * time.Millisecond)
			return ctx.Err()
		}
		c.gathered(map[string]func(context.Context) error{"a": slow, "b": slow, "c": slow})
		require.Equal(t, []string{"a b c d e"}, c.committed)
		c.succeeded()
	})
}

// TestRequestsInAChain: Hold and Widen work when the message runs by itself; Holds
// is about the message that runs, and Config.Strict is obeyed.
func TestRequestsInAChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChains(t, config{Strict: true})
		widened := false
		c.gathered(map[string]func(context.Context) error{
			"a": func(ctx context.Context) error { return dispatcher.Holds(ctx, requests("k")...) },
			"b": func(ctx context.Context) error {
				finish, err := dispatcher.Hold(ctx)
				if err == nil {
					time.AfterFunc(time.Minute, func() { finish(nil) })
				}
				return err
			},
			"d": func(ctx context.Context) error {
				if dispatcher.Holds(ctx, requests("l")...) != nil {
					widened = true
					return dispatcher.Widen(requests("l")...)
				}
				return nil
			},
		})
		c.succeeded()
		require.True(t, widened)
		require.Equal(t, []string{"a alone", "b alone", "c alone", "d alone", "e alone"}, c.committed)
	})
	synctest.Test(t, func(t *testing.T) {
		c := newChains(t, config{Strict: true})
		c.gathered(map[string]func(context.Context) error{"b": func(ctx context.Context) error {
			_ = dispatcher.Holds(ctx, requests("l")...) // forgotten
			return nil
		}})
		require.ErrorIs(t, c.results["b"], dispatcher.ErrNotHeld)
		require.NoError(t, c.results["a"])
		require.NoError(t, c.results["c"])
	})
}

// TestContextsInAChain: each handler has the values of its own submitter, and a
// context that is of no use when it has returned.
func TestContextsInAChain(t *testing.T) {
	type tenant struct{}
	synctest.Test(t, func(t *testing.T) {
		c := newChains(t, config{})
		var seen []string
		var before context.Context
		for _, name := range []string{"a", "b", "c"} {
			c.submit(context.WithValue(t.Context(), tenant{}, name), newJob(name, func(ctx context.Context) error {
				info, _ := dispatcher.InfoFrom(ctx)
				seen = append(seen, fmt.Sprint(ctx.Value(tenant{}), info.ID, info.Attempt))
				if before != nil {
					require.ErrorIs(t, dispatcher.Holds(before, requests("k")...), dispatcher.ErrNoHandler)
				}
				require.NoError(t, dispatcher.Holds(ctx, requests("k/"+name)...))
				before = ctx
				return nil
			}, "k/"+name, "k/x"))
		}
		drain(t, c.d)
		require.Equal(t, []string{"a2 1", "b3 1", "c4 1"}, seen)
	})
}

// TestSubmittedInAChain: a message that a handler submits is no part of the unit of work of
// the handler's chain, which may be undone, or over by then: its context has all values of
// the one that it was submitted with, but not those that Together has added.
func TestSubmittedInAChain(t *testing.T) {
	type key string
	derived := map[string]func(ctx context.Context) context.Context{
		"its context":   func(ctx context.Context) context.Context { return ctx },
		"a derived one": func(ctx context.Context) context.Context { return traced(ctx, "of b") },
		"one that has ended": func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancel(traced(ctx, "of b"))
			cancel()
			return ctx
		},
	}
	for name, derive := range derived {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newChains(t, config{})
				var values [2][]any
				note := func(i int) func(ctx context.Context) error {
					return func(ctx context.Context) error {
						values[i] = []any{ctx.Value(key("user")), ctx.Value(trace{}), ctx.Value(key("list"))}
						return nil
					}
				}
				next := newJob("next", func(ctx context.Context) error {
					_ = note(0)(ctx)
					last := newJob("last", note(1), "y")
					return c.d.Submit(t.Context(), last, dispatcher.ValuesOf[*job](derive(ctx)))
				}, "z")
				user := context.WithValue(context.WithValue(t.Context(), key("user"), "ann"), key("list"), []int{1}) // which cannot be compared
				c.submit(user, newJob("a", nil, "k"), newJob("b", func(ctx context.Context) error {
					require.NotNil(t, ctx.Value(txKey{}))
					return c.d.Submit(t.Context(), next, dispatcher.ValuesOf[*job](derive(ctx)))
				}, "k"))
				drain(t, c.d)
				require.Equal(t, []string{"busy alone", "a b", "next alone", "last alone"}, c.committed)
				want := []any{"ann", nil, []int{1}}
				if name != "its context" {
					want[1] = "of b"
				}
				require.Equal(t, [2][]any{want, want}, values)
			})
		})
	}
}

// TestChainDuringShutdown: no further handler of a chain is called; what was done
// is committed, and the rest is given back in order.
func TestChainDuringShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChains(t, config{ChainTime: time.Hour})
		for _, name := range []string{"a", "b", "c", "d"} {
			c.submit(t.Context(), newJob(name, takes(time.Second, nil), "k"))
		}
		time.Sleep(2500 * time.Millisecond) // "b" runs
		r, err := c.d.Shutdown(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"c", "d"}, names(r.Unfinished))
		require.Equal(t, []string{"busy alone", "a b"}, c.committed)
		require.NoError(t, c.results["b"])
		require.ErrorIs(t, c.results["c"], dispatcher.ErrClosed)
	})
	// Its context ends.
	synctest.Test(t, func(t *testing.T) {
		c := newChains(t, config{ChainTime: time.Hour})
		for _, name := range []string{"a", "b", "c"} {
			c.submit(t.Context(), newJob(name, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, "k"))
		}
		time.Sleep(2 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, err := c.d.Shutdown(ctx)
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b", "c"}, names(r.Unfinished))
		for _, l := range r.Unfinished {
			require.Zero(t, l.Attempts)
		}
	})
}

// TestChainParks: a message that is parked closes its keys to the rest of its
// chain, and an operator's Resume lets it run by itself.
func TestChainParks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChains(t, config{Failure: dispatcher.Park})
		failing := true
		c.gathered(map[string]func(context.Context) error{"b": func(context.Context) error {
			if failing {
				return errBoom
			}
			return nil
		}})
		require.Equal(t, []string{"a alone"}, c.committed)
		require.Equal(t, 3, c.d.Stats().Behind)
		failing = false
		require.NoError(t, c.d.Resume(t.Context(), c.d.Parked()[0].ID))
		drain(t, c.d)
		c.succeeded()
		require.Equal(t, []string{"a alone", "b alone", "c d e"}, c.committed)
	})
}

// TestChainObserved: an attempt that is undone is reported, with the cause.
func TestChainObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		c := newChains(t, config{Observer: func(e event) {
			if e.Message.name != "busy" && e.Kind >= dispatcher.Started {
				text := e.Message.name + " " + e.Kind.String()
				if e.Err != nil {
					text += ": " + e.Err.Error()
				}
				seen = append(seen, text)
			}
		}})
		failing := true
		c.submit(t.Context(), newJob("a", nil, "k"), newJob("b", func(context.Context) error {
			if failing {
				failing = false
				return errBoom
			}
			return nil
		}, "k"), newJob("c", nil, "k"))
		drain(t, c.d)
		require.NoError(t, c.d.Close())
		require.Equal(t, []string{
			"a started", "b started", "c started", "c undone: boom", "b undone: boom", "a undone: boom",
			"a started", "a finished", "b started", "b finished", "c started", "c finished",
		}, seen)
	})
}
