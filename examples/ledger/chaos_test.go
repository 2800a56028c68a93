package main

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/interlock-go/interlock/internal/rabbittest"
)

// chaos is how often each thing happens in TestChaos.
type chaos struct{ consumerKills, linkCuts, brokerKills, handOvers, producerKills int }

// chaosOf is a chaos of so many rounds.
func chaosOf(rounds int) chaos {
	third := (rounds + 2) / 3
	return chaos{consumerKills: rounds, linkCuts: rounds, brokerKills: third, handOvers: third, producerKills: third}
}

// Two ledgers get their messages through one broker: two processes on
// PostgreSQL, of which one is at work and the other stands by, and one process
// on SQLite. All the time, at any instant, the broker is killed, connections
// are cut, consumers and producers are killed or told to end, and are started
// again. In the end the effect of every message is there once, in order, and
// nothing is left in the queues.
func TestChaos(t *testing.T) {
	t.Parallel()
	rounds := roundsOf(t, "LEDGER_CHAOS_ROUNDS", 6)
	c := chaosOf(rounds)
	broker := rabbittest.Start(t) // which is killed
	stories := []*story{
		newStory(t, broker, "postgres", server(t).Database(t), 2, 400*rounds),
		newStory(t, broker, "sqlite", filepath.Join(t.TempDir(), "ledger.db"), 1, 400*rounds),
	}
	require.NoError(t, broker.Sync()) // so that the queues outlive a kill

	until, stop := context.WithCancel(t.Context())
	defer stop()
	var feeding errgroup.Group
	for _, s := range stories {
		feeding.Go(func() error { return s.feed(until, c.producerKills/len(stories)) })
	}
	began := time.Now()
	var outages []time.Duration
	for round := range c.brokerKills {
		var events errgroup.Group
		some := func(total int, event func(s *story) error) { // the round's share of them
			for range total*(round+1)/c.brokerKills - total*round/c.brokerKills {
				s := stories[rand.IntN(len(stories))]
				events.Go(func() error {
					wait(4 * time.Second)
					s.waitForWork(time.Second)
					wait(20 * time.Millisecond)
					return event(s)
				})
			}
		}
		some(c.consumerKills, (*story).killConsumer)
		some(c.linkCuts, (*story).cutLink)
		some(c.handOvers, func(*story) error { return stories[0].handOver() })
		events.Go(func() error {
			wait(2 * time.Second)
			stories[round%len(stories)].waitForWork(5 * time.Second)
			if err := broker.Kill(); err != nil {
				return err
			}
			killed := time.Now()
			err := broker.Restart()
			outages = append(outages, time.Since(killed))
			return err
		})
		require.NoError(t, events.Wait())
		for _, s := range stories {
			s.waitForWork(5 * time.Second)
		}
		if done := round + 1; done%20 == 0 {
			t.Logf("%d of %d broker kills, in %v", done, c.brokerKills, time.Since(began).Round(time.Second))
		}
	}
	stop()
	require.NoError(t, feeding.Wait())
	slices.Sort(outages)
	t.Logf("%+v in %v; the broker was away for %v to %v each time", c, time.Since(began).Round(time.Second),
		outages[0].Round(time.Millisecond), outages[len(outages)-1].Round(time.Millisecond))
	for _, s := range stories {
		t.Run(s.name, s.conclude)
	}
}
