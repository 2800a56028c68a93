package ordering

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
)

// TestADeadLetterOfAProcessThatEnded: it ends when it has recorded that an event was given
// up, and has not told so yet. The source sends the event again, and DeadLetter gets it. In
// a term after a good end it does not get it once more.
func TestADeadLetterOfAProcessThatEnded(t *testing.T) {
	for name, e := range map[string]*Event{"an event": ev("a1", "a=1"), "a command": command("pay-1", "10")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, hangs := NewMemory(), make(chan struct{})
				letters := 0
				life := func(deadLetter func()) *rig {
					r := newRig(t, store)
					r.failing(e.ID, errors.New("no money"))
					r.start(Config[*Event]{Failure: dispatcher.DeadLetter, DeadLetter: func(_ context.Context, dead *Event, err error) error {
						assert.Equal(t, e.ID, dead.ID)
						assert.ErrorContains(t, err, "no money")
						deadLetter()
						return nil
					}})
					return r
				}
				ended := life(func() { <-hangs })
				ended.offer(e)
				require.Empty(t, ended.outcome(e.Name()))
				ended.sleep(time.Second)

				count := func() { letters++ }
				next := life(count)
				next.offer(e)
				assert.Equal(t, []Result{Duplicate}, next.outcome(e.Name()))
				assert.Equal(t, 1, letters)
				assert.Empty(t, next.ran())
				close(hangs)
				ended.stop()
				next.stop()

				last := life(count)
				last.offer(e)
				assert.Equal(t, []Result{Duplicate}, last.outcome(e.Name()))
				assert.Equal(t, 1, letters)
				last.stop()
			})
		})
	}
}
