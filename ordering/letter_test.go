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

// TestTheClockOfAProcessThatEnded: it may be another machine's, and be fast or slow.
func TestTheClockOfAProcessThatEnded(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name    string
		ended   time.Duration // after this term has begun, by the clock of whoever gave the event up
		by      string
		orderly bool // the end of the term before
		untold  bool
	}{
		{name: "an hour before", ended: -time.Hour, untold: true},
		{name: "by a clock that is fast", ended: 30 * time.Second, untold: true},
		{name: "in this term", ended: 2 * time.Minute},
		{name: "by an operator, who was told", ended: -time.Hour, by: "ann"},
		{name: "after a good end", ended: -time.Hour, orderly: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &Sequencer[*Event]{info: TermInfo{Since: now, Previous: &PreviousTerm{Ended: c.orderly}}}
			job := &JobState{Status: StatusDeadLettered, Ended: now.Add(c.ended), By: c.by}
			assert.Equal(t, c.untold, s.mayBeUntold(job))
		})
	}
}
