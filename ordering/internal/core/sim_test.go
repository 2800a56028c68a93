package core

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	simSeed  = flag.Uint64("sim.seed", 0, "run this simulation only")
	simTrace = flag.Bool("sim.trace", false, "print all that happens in the simulation")
)

// simEvents is how many events each simulation has.
const simEvents = 300

// simulate runs a simulation, and returns what was wrong with it, or "".
func simulate(seed uint64, trace bool) (w *world, wrong string) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case violation:
			wrong = string(v)
		default:
			wrong = fmt.Sprintf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	w = newWorld(seed, simEvents, trace)
	w.run()
	return w, ""
}

func TestSimulation(t *testing.T) {
	if *simSeed != 0 {
		w, wrong := simulate(*simSeed, *simTrace)
		if *simTrace && w != nil {
			fmt.Println(strings.Join(w.lines, "\n"))
		}
		if wrong != "" {
			t.Fatal(wrong)
		}
		return
	}
	events := 1_000_000
	if raceEnabled {
		events = 60_000
	}
	if s := os.Getenv("CORE_SIM_EVENTS"); s != "" {
		var err error
		if events, err = strconv.Atoi(s); err != nil {
			t.Fatalf("CORE_SIM_EVENTS: %v", err)
		}
	}
	seeds := uint64(max(1, events/simEvents))
	var next atomic.Uint64
	var failed atomic.Int32
	var steps, stale, terms, restores, losses, parkings, epochs, deaths, crashed atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				seed := next.Add(1)
				if seed > seeds || failed.Load() > 20 {
					return
				}
				w, wrong := simulate(seed, false)
				if w != nil {
					steps.Add(int64(w.steps))
					stale.Add(int64(w.stale))
					terms.Add(int64(w.terms))
					restores.Add(int64(w.restores))
					losses.Add(int64(w.losses))
					deaths.Add(int64(w.deaths))
					crashed.Add(int64(w.crashed))
					parkings.Add(int64(w.notices[StreamParked]))
					epochs.Add(int64(w.notices[EpochBegan]))
				}
				if wrong != "" {
					failed.Add(1)
					t.Errorf("seed %d: %s\nrun it again with: go test ./ordering/internal/core -run TestSimulation -sim.seed=%d -sim.trace", seed, wrong, seed)
				}
			}
		})
	}
	workers.Wait()
	t.Logf("%d simulations, %d steps, %d of them by processes that had lost their terms, %d terms, %d streams parked, %d epochs begun, %d times the store went back, %d events tell of it, %d processes killed by messages, which did not run any more %d times",
		seeds, steps.Load(), stale.Load(), terms.Load(), parkings.Load(), epochs.Load(), restores.Load(), losses.Load(), deaths.Load(), crashed.Load())
	if !t.Failed() && events >= 1_000_000 {
		require.Positive(t, stale.Load())
		require.Positive(t, losses.Load())
		checkMoves(t)
	}
}

// The same seed is the same simulation: otherwise it could not be run again.
func TestSimulationIsDeterministic(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		first, wrong := simulate(seed, true)
		require.Empty(t, wrong)
		second, wrong := simulate(seed, true)
		require.Empty(t, wrong)
		for i, line := range first.lines {
			require.Equalf(t, line, second.lines[i], "seed %d, line %d", seed, i)
		}
	}
}
