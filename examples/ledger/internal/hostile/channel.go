// Package hostile is a channel that loses, repeats and reorders messages, and
// a source that has them all and answers badly: what a ledger must cope with.
package hostile

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// Channel says how bad a channel is. The zero Channel is a good one.
type Channel struct {
	Seed uint64
	// Loss says which messages are lost: see [Independent] and [Bursty].
	Loss Loss
	// Duplicates is the share of messages that come twice.
	Duplicates float64
	// Late is the share of messages that come Delay places later.
	Late  float64
	Delay int
	// Window is how far messages are shuffled, in places.
	Window int
	// Old is the share of messages with which one comes again that was
	// delivered long before.
	Old float64
}

// Loss tells for one message after the other whether it is lost.
type Loss func(r *rand.Rand) (lost bool)

// Independent loses each message with probability p.
func Independent(p float64) Loss {
	return func(r *rand.Rand) bool { return r.Float64() < p }
}

// Bursty is the channel of E. N. Gilbert, "Capacity of a burst-noise channel"
// (1960), DOI 10.1002/j.1538-7305.1960.tb03959.x, with losses in both states.
type Bursty struct {
	ToBad, ToGood     float64 // probability to change the state with a message
	LossGood, LossBad float64 // probability to lose one in each state
}

// Loss returns a channel that begins in the good state.
func (b Bursty) Loss() Loss {
	bad := false
	return func(r *rand.Rand) bool {
		change, loss := b.ToBad, b.LossGood
		if bad {
			change, loss = b.ToGood, b.LossBad
		}
		lost := r.Float64() < loss
		if r.Float64() < change {
			bad = !bad
		}
		return lost
	}
}

// Deliver returns what comes out of the channel, as indices of the n messages
// that were sent, and how many were lost. The last message always comes: after
// it, whoever counts knows what else there must be.
func (c Channel) Deliver(n int) (delivered []int, lost int) {
	r := rand.New(rand.NewPCG(c.Seed, 0x605711e))
	type arrival struct {
		message int
		at      float64
	}
	var arrivals []arrival
	send := func(message, sent int) {
		at := float64(sent) + r.Float64()*float64(c.Window)
		if r.Float64() < c.Late {
			at += float64(c.Delay)
		}
		arrivals = append(arrivals, arrival{message, at})
	}
	isLost := make([]bool, n)
	for i := range n {
		if i < n-1 && c.Loss != nil && c.Loss(r) {
			isLost[i] = true
			lost++
			continue
		}
		send(i, i)
		if r.Float64() < c.Duplicates {
			send(i, i)
		}
		if old := r.IntN(i/2 + 1); r.Float64() < c.Old && !isLost[old] {
			send(old, i)
		}
	}
	slices.SortStableFunc(arrivals, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	for _, a := range arrivals {
		delivered = append(delivered, a.message)
	}
	return delivered, lost
}
