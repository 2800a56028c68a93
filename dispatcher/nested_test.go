package dispatcher_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
)

// TestWaitingForOneself: what would wait for the dispatcher is refused wherever
// the dispatcher waits for the caller, whatever the caller's context, and
// changes nothing.
func TestWaitingForOneself(t *testing.T) {
	calls := map[string]func(d *disp, ctx context.Context) error{
		"Close":    func(d *disp, _ context.Context) error { return d.Close() },
		"Shutdown": func(d *disp, ctx context.Context) error { _, err := d.Shutdown(ctx); return err },
		"Drain":    func(d *disp, ctx context.Context) error { return d.Drain(ctx) },
		"Submit":   func(d *disp, ctx context.Context) error { return d.Submit(ctx, newJob("more", nil)) },
		"SubmitBatch": func(d *disp, ctx context.Context) error {
			_, err := d.SubmitBatch(ctx, []*job{newJob("more", nil)})
			return err
		},
		"Go": func(d *disp, ctx context.Context) error { _, err := d.Go(ctx, newJob("more", nil)); return err },
	}
	// Each place calls f where it is, and then lets the message end.
	type place struct {
		cfg  config
		done func(error)
		run  func(context.Context) error
	}
	places := map[string]func(d **disp, f func(context.Context)) place{
		"handler": func(_ **disp, f func(context.Context)) place {
			return place{run: func(ctx context.Context) error { f(ctx); return nil }}
		},
		"handler, another context": func(_ **disp, f func(context.Context)) place {
			return place{run: func(context.Context) error { f(context.Background()); return nil }}
		},
		"goroutine of a handler": func(_ **disp, f func(context.Context)) place {
			return place{run: func(ctx context.Context) error {
				done := make(chan struct{})
				go func() { defer close(done); f(context.WithValue(ctx, errBoom, 1)) }()
				<-done
				return nil
			}}
		},
		"batch handler": func(_ **disp, f func(context.Context)) place {
			return place{cfg: config{BatchHandler: func(ctx context.Context, ms []*job) []error {
				if ms[0].name == "it" {
					f(ctx)
					return nil
				}
				return []error{runJob(ctx, ms[0])}
			}}}
		},
		"OnDone": func(_ **disp, f func(context.Context)) place {
			return place{done: func(error) { f(context.Background()) }}
		},
		"OnDone, the handler's context": func(_ **disp, f func(context.Context)) place {
			var kept context.Context
			return place{run: func(ctx context.Context) error { kept = ctx; return nil }, done: func(error) { f(kept) }}
		},
		"DeadLetter": func(_ **disp, f func(context.Context)) place {
			return place{run: takes(0, errBoom), cfg: config{DeadLetter: func(ctx context.Context, _ *job, _ error) error {
				info, ok := dispatcher.InfoFrom(ctx)
				if !ok || info.Attempt != 1 || !errors.Is(dispatcher.Release(ctx), dispatcher.ErrNoHandler) {
					panic("not its own context")
				}
				f(ctx)
				return nil
			}}}
		},
		"DeadLetter, another context": func(_ **disp, f func(context.Context)) place {
			return place{run: takes(0, errBoom), cfg: config{DeadLetter: func(context.Context, *job, error) error {
				f(context.Background())
				return nil
			}}}
		},
		"FailureFor": func(_ **disp, f func(context.Context)) place {
			return place{run: takes(0, errBoom), cfg: config{FailureFor: func(*job, error) dispatcher.FailurePolicy {
				f(context.Background())
				return dispatcher.DeadLetter
			}}}
		},
		"observer": func(_ **disp, f func(context.Context)) place {
			told := make(chan struct{})
			return place{run: func(context.Context) error { <-told; return nil }, cfg: config{Observer: func(e event) {
				if e.Kind == dispatcher.Started && e.Message.name == "it" {
					f(context.Background())
					close(told)
				}
			}}}
		},
		"logger": func(_ **disp, f func(context.Context)) place {
			return place{run: takes(0, errBoom), cfg: config{Logger: slog.New(funcHandler(func() { f(context.Background()) }))}}
		},
		"OnDone, given up by an operator": func(d **disp, f func(context.Context)) place {
			run := func(context.Context) error {
				go func() {
					time.Sleep(time.Second)
					_ = (*d).Skip(context.Background(), 2)
				}()
				return errBoom
			}
			return place{run: run, done: func(error) { f(context.Background()) }, cfg: config{Failure: dispatcher.Park}}
		},
	}
	for where, at := range places {
		for name, call := range calls {
			if where == "goroutine of a handler" && name == "Close" {
				continue // it has no context to tell by
			}
			t.Run(where+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var d *disp
					var errs []error
					p := at(&d, func(ctx context.Context) { errs = append(errs, call(d, ctx)) })
					cfg := p.cfg
					cfg.Workers, cfg.MaxPending = 2, 2
					d = start(t, cfg)
					open := make(chan struct{})
					submit(t, d, newJob("holds a slot", func(context.Context) error { <-open; return nil }, "b"))
					it := newJob("it", p.run, "a")
					var opts []dispatcher.SubmitOption[*job]
					if p.done != nil {
						opts = append(opts, dispatcher.OnDone(func(_ *job, err error) { p.done(err) }))
					}
					require.NoError(t, d.Submit(t.Context(), it, opts...))
					time.Sleep(2 * time.Second)
					synctest.Wait()
					full := cfg.Failure != dispatcher.Park || name == "Close" || name == "Shutdown" || name == "Drain"
					require.Len(t, errs, 1)
					if full { // a parked message has no slot
						require.ErrorIs(t, errs[0], dispatcher.ErrNested)
					}
					require.NoError(t, d.Err(), "it was not stopped")
					close(open)
					drain(t, d)
					require.NoError(t, d.Do(t.Context(), newJob("afterwards", nil, "a")))
					require.NoError(t, d.Close())
				})
			})
		}
	}
}

// funcHandler calls a function for what is logged.
type funcHandler func()

func (f funcHandler) Enabled(context.Context, slog.Level) bool  { return true }
func (f funcHandler) Handle(context.Context, slog.Record) error { f(); return nil }
func (f funcHandler) WithAttrs([]slog.Attr) slog.Handler        { return f }
func (f funcHandler) WithGroup(string) slog.Handler             { return f }

// TestTicketInAHandler: a handler must not wait for a ticket of its own
// dispatcher, but may look at one.
func TestTicketInAHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, other := start(t, config{Workers: 1}), start(t, config{Workers: 1})
		var kept context.Context
		var ticket *dispatcher.Ticket
		require.NoError(t, d.Do(t.Context(), newJob("", func(ctx context.Context) (err error) {
			kept = ctx
			if ticket, err = d.Go(ctx, newJob("", nil)); err != nil {
				return err
			}
			require.ErrorIs(t, ticket.Wait(ctx), dispatcher.ErrNested)
			elsewhere, err := other.Go(ctx, newJob("", nil))
			require.NoError(t, err)
			return elsewhere.Wait(ctx)
		})))
		require.NoError(t, ticket.Wait(t.Context()))
		require.NoError(t, ticket.Wait(kept), "the handler has ended")
		require.NoError(t, d.Do(t.Context(), newJob("", func(ctx context.Context) error {
			return ticket.Wait(ctx) // it has a result
		})))
	})
}

// TestCloseInACallbackOfAShutdown: likewise for what the shutdown gives back.
func TestCloseInACallbackOfAShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 1})
		submit(t, d, newJob("", takes(time.Second, nil)))
		var errs []error
		for range 2 {
			require.NoError(t, d.Submit(t.Context(), newJob("", nil), dispatcher.OnDone(func(_ *job, err error) {
				require.ErrorIs(t, err, dispatcher.ErrClosed)
				errs = append(errs, d.Close())
			})))
		}
		synctest.Wait()
		require.ErrorIs(t, d.Close(), dispatcher.ErrUnfinished)
		require.Len(t, errs, 2)
		for _, err := range errs {
			require.ErrorIs(t, err, dispatcher.ErrNested)
		}
	})
}

// TestEverythingPanics: whatever the caller's functions do, the process goes
// on, every message has a result or is parked, and what was to be logged goes
// to standard error at least.
func TestEverythingPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := func() { panic(errBoom) }
		results := 0
		d := start(t, config{
			Workers: 2, MaxAttempts: 2, Backoff: dispatcher.Backoff{Initial: time.Millisecond},
			Logger:     slog.New(panicHandler{}),
			Observer:   func(event) { boom() },
			FailureFor: func(*job, error) dispatcher.FailurePolicy { boom(); return dispatcher.Stop },
			DeadLetter: func(context.Context, *job, error) error { boom(); return nil },
		})
		for _, err := range []error{nil, errBoom, evilError{}, dispatcher.Permanent(evilError{})} {
			require.NoError(t, d.Submit(t.Context(), newJob("", takes(0, err), "a"), dispatcher.OnDone(func(*job, error) { results++; boom() })))
			drain(t, d)
			for _, p := range d.Parked() { // they could not be dead-lettered
				require.NoError(t, d.Skip(t.Context(), p.ID))
			}
		}
		require.Equal(t, 4, results)
		require.NoError(t, d.Close())
	})
}

// evilError panics when it is asked what it is.
type evilError struct{}

func (evilError) Error() string { return "evil" }
func (evilError) Is(error) bool { panic(errBoom) }
func (evilError) As(any) bool   { panic(errBoom) }

type panicHandler struct{}

func (panicHandler) Enabled(context.Context, slog.Level) bool  { panic(errBoom) }
func (panicHandler) Handle(context.Context, slog.Record) error { panic(errBoom) }
func (panicHandler) WithAttrs([]slog.Attr) slog.Handler        { panic(errBoom) }
func (panicHandler) WithGroup(string) slog.Handler             { panic(errBoom) }

// TestSizeFails: a message whose size cannot be known is refused, and what was
// submitted before it is not.
func TestSizeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{MaxPendingBytes: 10, Size: func(j *job) int64 {
			if j.name == "bad" {
				panic(errBoom)
			}
			return 1
		}})
		good, bad := newJob("", nil), newJob("bad", nil)
		for _, err := range []error{d.Submit(t.Context(), bad), d.TrySubmit(t.Context(), bad), d.Do(t.Context(), bad)} {
			require.ErrorIs(t, err, errBoom)
			require.ErrorAs(t, err, new(*dispatcher.PanicError))
		}
		n, err := d.SubmitBatch(t.Context(), []*job{good, bad, good})
		require.Equal(t, 1, n)
		require.ErrorIs(t, err, errBoom)
		drain(t, d)
		require.EqualValues(t, 1, d.Stats().Accepted)
	})
}

// TestSeveralCallbacks: all are called, in order, whatever they do.
func TestSeveralCallbacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d := start(t, config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		var called []int
		note := func(i int) dispatcher.SubmitOption[*job] {
			return dispatcher.OnDone(func(_ *job, err error) {
				called = append(called, i)
				if i == 2 {
					panic("the second")
				}
			})
		}
		require.NoError(t, d.Submit(t.Context(), newJob("", nil), note(1), note(2), note(3), dispatcher.SubmitOption[*job]{}, note(4)))
		drain(t, d)
		require.Equal(t, []int{1, 2, 3, 4}, called)
		require.Contains(t, log.String(), "the second")
	})
}

// TestErrorsOfEndedContexts: they say both that the context ended and why.
func TestErrorsOfEndedContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 1, MaxPending: 1})
		ticket, err := d.Go(t.Context(), newJob("", takes(time.Hour, nil)))
		require.NoError(t, err)
		for name, call := range map[string]func(ctx context.Context) error{
			"Submit":   func(ctx context.Context) error { return d.Submit(ctx, newJob("", nil)) },
			"Do":       func(ctx context.Context) error { return d.Do(ctx, newJob("", nil)) },
			"Wait":     ticket.Wait,
			"Drain":    d.Drain,
			"Shutdown": func(ctx context.Context) error { _, err := d.Shutdown(ctx); return err },
		} {
			if name == "Shutdown" {
				continue // after the others
			}
			check := func(ctx context.Context, want ...error) {
				err := call(ctx)
				for _, w := range want {
					require.ErrorIs(t, err, w, name)
				}
			}
			cancelled, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(errBoom) })
			check(cancelled, context.Canceled, errBoom) // while it waits
			check(cancelled, context.Canceled, errBoom) // before
			late, stop := context.WithTimeoutCause(t.Context(), time.Second, errBoom)
			check(late, context.DeadlineExceeded, errBoom)
			check(late, context.DeadlineExceeded, errBoom)
			stop()
		}
		late, stop := context.WithTimeoutCause(t.Context(), time.Second, errBoom)
		defer stop()
		_, err = d.Shutdown(late)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, errBoom)
	})
}
