package model

import (
	"math"
	"math/rand/v2"
	"sort"
	"time"

	predict "github.com/interlock-go/interlock/ordering/model"
)

// Scenario is one thing to predict and to measure.
type Scenario struct {
	Name    string
	Seed    uint64
	Streams int
	Arrival float64 // events per second, of all streams together
	Skew    float64 // exponent of Zipf's law for the streams' shares; 0 for even ones
	Service float64 // events per second that a stream could handle
	Workers int     // as many as streams, so that a stream never waits for one
	Events  int

	Channel predict.Channel // for each stream
	Shared  bool            // one channel for all streams: an outage
	Gap     time.Duration   // T_gap
	Attempt time.Duration   // the time of an attempt to have events replayed
	Success float64         // p_s; in an outage, none succeeds
	Tries   int             // R

	IdleTTL time.Duration // of streams in memory; 0 to keep them
}

// independent is the channel of losses that have nothing to do with each
// other.
func independent(loss float64) predict.Channel {
	return predict.Channel{ToBad: loss, ToGood: 1 - loss, LossBad: 1}
}

// bursts is the channel with the same losses, in bursts of mean length.
func bursts(loss, length float64) predict.Channel {
	return predict.Channel{ToBad: loss / (1 - loss) / length, ToGood: 1 / length, LossBad: 1}
}

// perStream is the rate at which events of one of several even streams come.
func (s Scenario) perStream() float64 { return s.Arrival / float64(s.Streams) }

// scale makes a scenario shorter or longer.
func (s Scenario) scale(by float64) Scenario {
	s.Events = int(float64(s.Events) * by)
	return s
}

// shares draws streams by their shares of the events.
type shares struct{ upTo []float64 }

func newShares(streams int, skew float64) shares {
	s := shares{make([]float64, streams)}
	sum := 0.0
	for i := range streams {
		sum += math.Pow(float64(i+1), -skew)
		s.upTo[i] = sum
	}
	return s
}

func (s shares) draw(r *rand.Rand) int {
	at := r.Float64() * s.upTo[len(s.upTo)-1]
	return sort.Search(len(s.upTo)-1, func(i int) bool { return s.upTo[i] > at })
}

// state is where a channel is.
type state struct {
	predict.Channel
	bad bool
}

// loses tells whether the next event is lost.
func (s *state) loses(r *rand.Rand) bool {
	change, loss := s.ToBad, s.LossGood
	if s.bad {
		change = s.ToGood
	}
	if r.Float64() < change {
		s.bad = !s.bad
	}
	if s.bad {
		loss = s.LossBad
	}
	return r.Float64() < loss
}
