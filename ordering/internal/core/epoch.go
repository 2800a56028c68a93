package core

import (
	"fmt"
	"math"
)

// EpochSize is how many numbers an epoch has: from 1 to EpochSize. It is a power
// of ten, so that people can read a place: that of number 5 of epoch 2 is
// 200000000000005.
const EpochSize = 100_000_000_000_000

// MaxPlace is the place of the last number of the last epoch. A database's
// integers of 64 bits have it.
const MaxPlace = (math.MaxUint16 + 1) * EpochSize

// Place returns the place of a number in an epoch. Everything in this package, and
// what is kept by a store, counts in places, and calls them numbers; so windows,
// gaps and spans know nothing of epochs, but for what is in this file.
//
// Invariant: places are ordered as their epochs, and in one epoch as their numbers.
// Every one from 1 to MaxPlace is that of one number in one epoch, so the next
// place after the last number of an epoch is the first number of the next epoch.
// The place of a number of epoch 0 is the number.
func Place(epoch uint16, number uint64) uint64 { return uint64(epoch)*EpochSize + number }

// EpochOf returns the epoch of a place; that of 0, which is none, is 0.
func EpochOf(place uint64) uint16 {
	if place == 0 {
		return 0
	}
	return uint16((place - 1) / EpochSize)
}

// NumberOf returns the number of a place in its epoch; that of 0, which is none, is
// 0.
func NumberOf(place uint64) uint64 { return place - Place(EpochOf(place), 0) }

// EndsEpoch reports whether a place is that of the last number of an epoch. Nothing
// has it but a span of numbers that are skipped since a later epoch has begun.
func EndsEpoch(place uint64) bool { return place > 0 && place%EpochSize == 0 }

// lastOf returns the last place of the epoch of a place.
func lastOf(place uint64) uint64 { return Place(EpochOf(place), EpochSize) }

// byEpochs returns the span in two parts, if it goes beyond the beginning of an
// epoch: what is before that, and the rest.
func (r Span) byEpochs() []Span {
	before := Place(EpochOf(r.To), 0)
	if r.From > before || EndsEpoch(r.To) {
		return []Span{r}
	}
	return []Span{{r.From, before}, {before + 1, r.To}}
}

// errEpoch is why numbers are skipped before one of a later epoch.
func errEpoch(n uint64) error { return fmt.Errorf("epoch %d has begun", EpochOf(n)) }

// awaitsEpoch reports whether the first event that waits is of a later epoch than
// the next number, nothing is held before it, and nothing that comes after the next
// number is done in its epoch: else that number has been there, before a crash for
// example, and is missing.
func (st *stream) awaitsEpoch() bool {
	e, n := st.firstEarly()
	return e != nil && EpochOf(n) > EpochOf(st.next) && !st.isHeld(n) && st.doneAfter() == 0
}

// doneAfter returns the first number of the last span that is done of the next
// number's epoch beyond that number, 0 if there is none.
func (st *stream) doneAfter() (n uint64) {
	for _, r := range st.ahead {
		if r.From > lastOf(st.next) {
			break
		}
		n = r.From
	}
	return n
}

// beginEpoch has a stream go on with the first number of a later epoch, of which
// an event waits. The rest of the epochs before is skipped, however much that is:
// that is durable before the new epoch begins.
func (m *Machine) beginEpoch(st *stream) {
	m.closeGap(st)
	if st.turning {
		return
	}
	st.turning = true
	m.decide(&Decision{Kind: skipEpoch, Key: st.key, then: func(error) {
		st.turning = false
		m.touch(st)
	}})
}

// skipRest skips what is left of the epochs before the one that waits, unless an
// event has come meanwhile that is to run first. It reports whether the decision is
// over.
func (m *Machine) skipRest(d *Decision) (over bool) {
	st := d.stream
	if !st.awaitsEpoch() {
		return true
	}
	_, n := st.firstEarly()
	m.startSkip(d, toEpoch(st.next, n))
	return false
}

// toEpoch is what is to be skipped from one number to the epoch of a later one.
func toEpoch(from, n uint64) toSkip {
	return toSkip{parts: Spans{{from, Place(EpochOf(n), 0)}}, most: notHeld, counted: true, why: errEpoch(n)}
}

// isBehindEnd reports whether a number comes after the stream's last one, in the
// epoch that has ended; a later one opens the stream again.
func (st *stream) isBehindEnd(n uint64) bool {
	return st.ended > 0 && n > st.ended && EpochOf(n) == EpochOf(st.ended)
}
