package core

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// message is what a producer has numbered: an event, or a command.
type message struct {
	id      int
	slots   []place // none of a command
	command string
	keys    claim
	size    int64

	rivals []*message // others with a number of it, or with its ID
	knots  bool       // it waits for another one that waits for it
	beyond bool       // it is numbered after the end of a stream, or far too high
	late   bool       // the source does not know of it when it is asked
	kills  bool       // its handler ends the process, mostly

	firstTerm int  // in which it was brought first
	unlucky   int  // its run was marked when a process ended that no message had killed, or was taken over
	acked     bool // a source was told what became of it, and will not bring it again by itself
	waiting   bool // it is in the list of what is to be brought
	dropped   bool // the source does not bring it by itself
	wasHeld   bool // a source was told that it is held
}

type place struct {
	key    lockkeys.Key
	number uint64
	end    bool
}

func (p place) String() string { return span(Range{p.key, p.number, p.number}) }

func (m *message) String() string {
	if m.command != "" {
		return fmt.Sprintf("#%d(%s)", m.id, m.command)
	}
	return fmt.Sprintf("#%d%v", m.id, m.slots)
}

// on returns the message's number on a stream, 0 for none.
func (m *message) on(key lockkeys.Key) uint64 {
	for _, p := range m.slots {
		if p.key == key {
			return p.number
		}
	}
	return 0
}

func (m *message) hasNumbersOf(o *message) bool {
	if len(m.slots) != len(o.slots) {
		return false
	}
	for _, p := range m.slots {
		if o.on(p.key) != p.number {
			return false
		}
	}
	return true
}

// claim is lock keys as sets of leaves: a key has all leaves below it.
type claim struct{ exclusive, shared uint64 }

func (c claim) conflicts(o claim) bool {
	return c.exclusive&(o.exclusive|o.shared) != 0 || c.shared&o.exclusive != 0
}

// plan is what the producers have numbered, and how bad it is.
type plan struct {
	rnd      *rand.Rand
	messages []*message
	at       map[lockkeys.Key]map[uint64][]*message
	last     map[lockkeys.Key]map[uint16]uint64 // the last number that was given in each epoch
	epoch    map[lockkeys.Key]uint16            // the one that numbers are given in
	streams  []lockkeys.Key

	holes    int // one of so many numbers never was; 0 for none
	spread   int // one of so many events has several streams
	commands int // one of so many messages is a command
	oddities int // one of so many messages contradicts others
	ends     int // one of so many events ends a stream
	epochs   int // one of so many numbers is of a new epoch
	locking  int
}

func newPlan(rnd *rand.Rand, n int) *plan {
	one := func(of ...int) int { return of[rnd.IntN(len(of))] }
	p := &plan{
		rnd: rnd, at: map[lockkeys.Key]map[uint64][]*message{}, last: map[lockkeys.Key]map[uint16]uint64{}, epoch: map[lockkeys.Key]uint16{},
		holes: one(0, 0, 10, 30, 100), spread: one(2, 4, 4, 10), commands: one(0, 10, 30),
		oddities: one(0, 0, 0, 30, 100), ends: one(0, 20, 50, 100), epochs: one(0, 0, 15, 60), locking: rnd.IntN(5),
	}
	open := make([]int, 1+rnd.IntN(8)) // the generation of each stream
	key := func(i int) lockkeys.Key {
		return lockkeys.MustParse(fmt.Sprintf("s%d/%d", i, open[i]))
	}
	next := func(i int) place {
		k := key(i)
		if p.epochs > 0 && rnd.IntN(p.epochs) == 0 {
			p.epoch[k] += min(math.MaxUint16-p.epoch[k], uint16(one(1, 1, 1, 2, 20_000)))
		}
		if p.holes > 0 && rnd.IntN(p.holes) == 0 {
			p.give(k, 1+uint64(rnd.IntN(1+rnd.IntN(8))))
		}
		return place{key: k, number: p.give(k, 1)}
	}
	for len(p.messages) < n {
		if p.commands > 0 && rnd.IntN(p.commands) == 0 {
			m := &message{command: fmt.Sprintf("c%d", len(p.messages)), keys: p.claim(rnd.IntN(len(open)))}
			p.add(m)
			if p.oddities > 0 && rnd.IntN(5) == 0 {
				twin := &message{command: m.command, keys: m.keys, rivals: []*message{m}}
				m.rivals = append(m.rivals, twin)
				p.add(twin)
			}
			continue
		}
		on := []int{rnd.IntN(len(open))}
		if rnd.IntN(p.spread) == 0 {
			on = rnd.Perm(len(open))[:min(len(open), 2+rnd.IntN(1+rnd.IntN(3)))]
		}
		m := &message{keys: p.claim(on...)}
		for _, i := range on {
			m.slots = append(m.slots, next(i))
		}
		if p.ends > 0 && rnd.IntN(p.ends) == 0 {
			i := rnd.IntN(len(on))
			m.slots[i].end = true
			if p.oddities > 0 && rnd.IntN(4) == 0 {
				k := m.slots[i].key
				p.add(m)
				m = &message{keys: m.keys, slots: []place{{key: k, number: m.slots[i].number + 1 + uint64(rnd.IntN(3))}}, beyond: true}
			}
			if p.epochs > 0 && rnd.IntN(2) == 0 {
				p.epoch[key(on[i])]++ // it is opened again
			} else {
				open[on[i]]++
			}
		}
		p.add(m)
		if p.oddities > 0 && rnd.IntN(p.oddities) == 0 && m.slots[0].number > 0 && !m.beyond {
			p.odd(m, on, key, next)
		}
	}
	return p
}

// odd adds something that contradicts a message.
func (p *plan) odd(m *message, on []int, key func(int) lockkeys.Key, next func(int) place) {
	for i := range m.slots {
		if m.slots[i].end || p.top(m.slots[i].key) != m.slots[i].number {
			return
		}
	}
	switch p.rnd.IntN(6) {
	case 0: // another event with the same numbers
		p.add(&message{keys: m.keys, slots: append([]place(nil), m.slots...)})
	case 1: // another event with one of its numbers
		slots := []place{m.slots[p.rnd.IntN(len(m.slots))]}
		if p.rnd.IntN(2) == 0 {
			for i := range 8 {
				if i < len(on) && m.on(key(on[i])) == 0 {
					slots = append(slots, next(on[i]))
				}
			}
		}
		p.add(&message{keys: m.keys, slots: slots})
	case 2: // a number that is far too high
		s := m.slots[0]
		p.add(&message{keys: m.keys, slots: []place{{key: s.key, number: s.number + 1<<40}}, beyond: true})
	case 3: // two events of which each waits for the other
		if len(m.slots) < 2 {
			return
		}
		a, b := m.slots[0].key, m.slots[1].key
		x := &message{keys: m.keys, knots: true, slots: []place{{key: a, number: p.top(a) + 1}, {key: b, number: p.top(b) + 2}}}
		y := &message{keys: m.keys, knots: true, slots: []place{{key: a, number: p.top(a) + 2}, {key: b, number: p.top(b) + 1}}}
		p.give(a, 2)
		p.give(b, 2)
		p.add(x)
		p.add(y)
	case 4: // one that the source does not know of
		s := m.slots[0]
		p.add(&message{keys: m.keys, slots: []place{{key: s.key, number: p.give(s.key, 1)}}, late: true})
	case 5: // one that an old epoch's producer sends, who does not know of the new one
		s := m.slots[0]
		if p.epoch[s.key] > 0 {
			old := p.epoch[s.key] - 1
			p.add(&message{keys: m.keys, slots: []place{{key: s.key, number: max(p.last[s.key][old], Place(old, 0)) + 1 + uint64(p.rnd.IntN(3))}}, beyond: true})
		}
	}
}

// top returns the last number that was given of a stream.
func (p *plan) top(k lockkeys.Key) uint64 { return max(p.last[k][p.epoch[k]], Place(p.epoch[k], 0)) }

// anyOf returns a number of a stream that was given, or skipped by an epoch.
func (p *plan) anyOf(k lockkeys.Key) uint64 {
	epoch := uint16(p.rnd.IntN(1 + int(p.epoch[k])))
	return Place(epoch, 1+uint64(p.rnd.IntN(1+int(NumberOf(max(p.last[k][epoch], 1))))))
}

// give gives n numbers of a stream, and returns the last one.
func (p *plan) give(k lockkeys.Key, n uint64) uint64 {
	if p.last[k] == nil {
		p.last[k] = map[uint16]uint64{}
	}
	top := p.top(k) + n
	p.last[k][p.epoch[k]] = top
	return top
}

func (p *plan) add(m *message) {
	m.id = len(p.messages)
	m.size = int64(1 + p.rnd.IntN(100))
	p.messages = append(p.messages, m)
	for _, s := range m.slots {
		on := p.at[s.key]
		if on == nil {
			on = map[uint64][]*message{}
			p.at[s.key] = on
			p.streams = append(p.streams, s.key)
		}
		for _, r := range on[s.number] {
			r.rivals = append(r.rivals, m)
			m.rivals = append(m.rivals, r)
		}
		on[s.number] = append(on[s.number], m)
	}
}

// claim derives lock keys of an event on streams; each has two leaves.
func (p *plan) claim(on ...int) (c claim) {
	for _, i := range on {
		both, one := uint64(3)<<(2*i), uint64(1)<<(2*i+p.rnd.IntN(2))
		switch p.locking {
		case 0, 1: // its streams
			c.exclusive |= both
		case 2: // a part of them
			c.exclusive |= one
		case 3: // shared at times
			if p.rnd.IntN(2) == 0 {
				c.shared |= both
			} else {
				c.exclusive |= both
			}
		case 4: // a part, all or nothing
			switch p.rnd.IntN(4) {
			case 0:
				c.exclusive |= ^uint64(0)
			case 1:
			default:
				c.exclusive |= one
			}
		}
	}
	return c
}

// known is what a source knows of a range: messages that it can bring again,
// and numbers that never were.
func (p *plan) known(r Range) (messages []*message, never []Range) {
	for n := r.From; n <= min(r.To, p.last[r.Key][EpochOf(r.From)]); n++ {
		found := false
		for _, m := range p.at[r.Key][n] {
			if !m.late {
				messages = append(messages, m)
				found = true
			}
		}
		if found {
			continue
		}
		if last := len(never) - 1; last >= 0 && never[last].To+1 == n {
			never[last].To = n
		} else {
			never = append(never, Range{r.Key, n, n})
		}
	}
	return messages, never
}

// before is what a source brings besides: up to so many messages that the given ones
// wait for, directly or not.
func (p *plan) before(messages []*message, most int) (list []*message) {
	seen := map[*message]bool{}
	for _, m := range messages {
		seen[m] = true
	}
	for next := slices.Clone(messages); len(next) > 0; next = next[1:] {
		for _, s := range next[0].slots {
			for _, m := range p.at[s.key][s.number-1] {
				if len(list) < most && !m.late && !seen[m] {
					seen[m] = true
					list = append(list, m)
					next = append(next, m)
				}
			}
		}
	}
	slices.Reverse(list)
	return list
}

// settings are the bounds of a machine for a simulation.
func (p *plan) settings() Config {
	one := func(of ...int) int { return of[p.rnd.IntN(len(of))] }
	return Config{
		GapTimeout:    time.Duration(one(1, 20, 200, 2000)) * time.Millisecond,
		GapPolicy:     GapPolicy(one(0, 0, 0, 1, 1, 2)),
		MaxSkip:       one(1, 4, 20),
		MaxEarly:      one(1, 3, 10, 1000),
		MaxEarlyTotal: one(1, 5, 20, 1000),
		MaxEarlyBytes: int64(one(300, 2000, 1<<20)),
		MaxActive:     one(1, 1, 3, 10),
		IdleTTL:       time.Duration(one(10, 300, 10_000)) * time.Millisecond,
		MaxSpread:     one(0, 0, 1, 3),
		SpreadStops:   one(0, 0, 1) == 1,
		MaxReplays:    one(1, 2, 100),
	}
}
