package madeup

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/feed"
)

// place is all that changes in a generator.
type place struct {
	Version         int
	Made, Newcomers int
	Random          []byte
	Clients         []int // the accounts of each
	Script          [][]byte
	Balances        map[book.Holding]int64
	Opened, Closed  map[book.Account]bool
}

// placeVersion is to be raised when the same seed makes other messages.
const placeVersion = 1

// Place implements [feed.Seeker].
func (g *Generator) Place() ([]byte, error) {
	random, err := g.random.MarshalBinary()
	if err != nil {
		return nil, err
	}
	p := place{
		Version: placeVersion, Made: g.made, Newcomers: g.newcomers, Random: random,
		Balances: g.model.balances, Opened: g.model.opened, Closed: g.model.closed,
	}
	for _, c := range g.clients {
		p.Clients = append(p.Clients, len(c.accounts))
	}
	for _, m := range g.script {
		text, err := m.Payload()
		if err != nil {
			return nil, err
		}
		p.Script = append(p.Script, text)
	}
	var text bytes.Buffer
	err = gob.NewEncoder(&text).Encode(&p)
	return text.Bytes(), err
}

// Seek implements [feed.Seeker]. A generator of the same program makes the same
// messages again, so there is nothing to compare.
func (g *Generator) Seek(text []byte) error {
	var p place
	if err := gob.NewDecoder(bytes.NewReader(text)).Decode(&p); err != nil {
		return fmt.Errorf("%w: %w", feed.ErrOtherPlace, err)
	}
	if p.Version != placeVersion || p.Made > g.total {
		return fmt.Errorf("%w: a place of version %d after %d messages", feed.ErrOtherPlace, p.Version, p.Made)
	}
	var script []*book.Message
	for _, text := range p.Script {
		m, err := book.ParsePayload(text)
		if err != nil {
			return fmt.Errorf("%w: %w", feed.ErrOtherPlace, err)
		}
		script = append(script, m)
	}
	if err := g.random.UnmarshalBinary(p.Random); err != nil {
		return fmt.Errorf("%w: %w", feed.ErrOtherPlace, err)
	}
	g.made, g.newcomers, g.script, g.clients = p.Made, p.Newcomers, script, nil
	for i, accounts := range p.Clients {
		g.clients = append(g.clients, newClient(i+1, accounts))
	}
	g.model = modelOf(p)
	return nil
}

// Check implements [feed.Seeker].
func (g *Generator) Check(context.Context, []byte) error { return nil }

// modelOf returns the model that has come to a place.
func modelOf(p place) *model {
	m := newModel()
	for h, n := range p.Balances {
		m.balances[h] = n
		m.totals[book.Holding{Account: clientOf(h.Account), Commodity: h.Commodity}] += n
		m.totals[book.Holding{Account: book.Root, Commodity: h.Commodity}] += n
	}
	for a := range p.Opened {
		m.opened[a] = true
		m.clients[clientOf(a)] = true
	}
	for a := range p.Closed {
		m.closed[a] = true
	}
	return m
}
