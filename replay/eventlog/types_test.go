package eventlog_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/eventlog"
)

// A subscription to some types passes over the others, also over what is last, and over
// what nobody could decode, and keeps no job state of either.
func TestASubscriptionToSomeTypes(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		for name, together := range map[string]dispatcher.Together{"alone": nil, "together": b.store.Together} {
			table := "only_" + name
			start := func(types ...string) *eventlog.Subscription {
				return b.subscribe(t, eventlog.SubscriptionConfig{Name: table, Handler: b.model(t, table), Types: types, Together: together})
			}
			want := []int{}
			write := func(wanted string) {
				for _, kind := range []string{"a", "b", "c", "b", "a", "c"} {
					if e := b.put(t, kind, "stream/1"); kind == wanted {
						want = append(want, int(e.At.Place()))
					}
				}
			}
			head := func() ordering.Position {
				head, err := b.Head(t.Context(), 0)
				require.NoError(t, err)
				return head
			}
			before := head().Number
			s := start("nothing is of this type")
			require.NoError(t, s.CatchUp(within(t)))
			require.NoError(t, s.Close())

			s = start("b")
			write("b")
			damaged := b.put(t, "c", "stream/1")
			b.put(t, "c", "stream/1")
			_, err := b.store.DB().ExecContext(t.Context(), `UPDATE outbox_events SET body = $1 WHERE name = $2`, []byte("?"), damaged.Event.ID)
			require.NoError(t, err)
			require.NoError(t, s.Wait(within(t), head()))
			progress, err := s.Progress(t.Context())
			require.NoError(t, err)
			require.Equal(t, head(), progress[0].Done)
			require.NoError(t, s.Close())

			s = start("a")
			write("a")
			require.NoError(t, s.Wait(within(t), head()))
			require.NoError(t, s.Err())
			require.NoError(t, s.Close())
			assert.Equal(t, want, b.rows(t, table)["stream/1"], name)

			var states int
			require.NoError(t, b.store.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM ordering_jobs j JOIN ordering_consumers c ON c.id = j.consumer
				WHERE c.name = $1`, "eventlog/"+table).Scan(&states))
			assert.Less(t, states, int(head().Number-before)/2, "job states of some entries that ended out of order may be left")
		}
	})
}

func TestTypesMustBeNamed(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		_, err := eventlog.Subscribe(t.Context(), b.Log, eventlog.SubscriptionConfig{
			Name: "none", Store: b.store, Handler: b.model(t, "none"), Types: []string{}})
		require.ErrorIs(t, err, eventlog.ErrConfig)
		require.ErrorContains(t, err, "Types is empty")
	})
}

// An entry for which the handler has failed is not passed over when it is resumed and its
// type is not named any more: it is parked again, until it is named.
func TestAParkedEntryOfATypeThatIsNotNamedAnyMore(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		for name, together := range map[string]dispatcher.Together{"alone": nil, "together": b.store.Together} {
			table, stream := "left_"+name, "left/"+name
			handle := b.model(t, table)
			var works atomic.Bool
			start := func(types ...string) *eventlog.Subscription {
				return b.subscribe(t, eventlog.SubscriptionConfig{Name: table, Types: types, Together: together, Poll: 5 * time.Millisecond,
					Handler: func(ctx context.Context, job ordering.Job[eventlog.Entry]) error {
						if !works.Load() {
							return dispatcher.Permanent(errors.New("not today"))
						}
						return handle(ctx, job)
					}})
			}
			parkedFor := func(s *eventlog.Subscription, text string) {
				t.Helper()
				require.Eventually(t, func() bool {
					list, err := s.Sequencer().Parked(t.Context())
					return err == nil && len(list) == 1 && strings.Contains(list[0].Error, text)
				}, waitAtMost, time.Millisecond)
			}
			var want []int
			s := start("b-" + name)
			for _, kind := range []string{"a", "b-" + name, "a"} {
				if e := b.put(t, kind, stream); kind != "a" {
					want = append(want, int(e.At.Place()))
				}
			}
			parkedFor(s, "not today")
			require.NoError(t, s.Shutdown(within(t)))

			works.Store(true)
			resume := func(s *eventlog.Subscription) {
				require.NoError(t, s.Sequencer().Resume(dispatcher.WithOperator(t.Context(), "ann", "mended"), eventlog.Partition(0)))
			}
			s = start("other")
			resume(s)
			parkedFor(s, "its type is not among Types any more")
			require.NoError(t, s.Shutdown(within(t)))
			s = start("b-"+name, "other")
			resume(s)
			require.Eventually(t, func() bool { return s.CatchUp(within(t)) == nil }, waitAtMost, time.Millisecond)
			require.NoError(t, s.Close())
			assert.Equal(t, want, b.rows(t, table)[stream])
		}
	})
}
