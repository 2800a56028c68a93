package lockkeys

import (
	"cmp"
	"slices"
)

// Claim is the requests of one message, taken all together or not at all. A
// message's own requests never conflict with each other: a claim is
// normalised, so that duplicates and requests that a wider one covers
// collapse. What a claim covers is the same before and after.
//
// The zero Claim is empty and conflicts with nothing. A Claim is not safe for
// concurrent use, and must not be copied but with [Claim.Copy]: a copy made by
// assignment shares its first requests with the original, and changes with it
// (go vet reports it, like that of a mutex). Whoever gets a Claim as an
// argument, to add requests to it, has it until he returns; its owner resets it
// and uses it again. To keep what is in it, Copy it.
//
// Invariant: the first sorted requests are in tree order and none of them
// covers another; the rest has been added since. The mode of those that were
// dropped since is gone; there are as many as it says.
type Claim struct {
	_        noCopy
	requests []Request
	sorted   int
	dropped  int
	few      [2]Request // where requests begins
}

// noCopy makes go vet report copies of what it is in.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// gone is in place of the mode of a request that was dropped.
const gone Mode = 0xff

// NewClaim returns a claim of the given requests.
func NewClaim(requests ...Request) *Claim {
	c := new(Claim)
	c.Add(requests...)
	return c
}

// Exclusive adds exclusive requests for keys.
func (c *Claim) Exclusive(keys ...Key) {
	c.grow(len(keys))
	for _, k := range keys {
		c.requests = append(c.requests, Request{k, Exclusive})
	}
}

// Shared adds shared requests for keys.
func (c *Claim) Shared(keys ...Key) {
	c.grow(len(keys))
	for _, k := range keys {
		c.requests = append(c.requests, Request{k, Shared})
	}
}

// Add adds requests. A mode that is not known counts as exclusive.
func (c *Claim) Add(requests ...Request) {
	c.grow(len(requests))
	for _, r := range requests {
		if r.Mode != Shared {
			r.Mode = Exclusive
		}
		c.requests = append(c.requests, r)
	}
}

// grow makes the claim's first requests need no memory of their own.
func (c *Claim) grow(n int) {
	if n > 0 && c.requests == nil {
		c.requests = c.few[:0]
	}
}

// Copy makes c a copy of another claim.
func (c *Claim) Copy(from *Claim) {
	requests := from.Requests()
	c.Reset()
	c.grow(len(requests))
	c.requests = append(c.requests, requests...)
	c.sorted = len(requests)
}

// Find returns the request of the claim for this very key, if there is one: not
// one that merely contains it. It takes a binary search.
func (c *Claim) Find(k Key) (r Request, ok bool) {
	i, ok := c.find(k)
	if !ok {
		return Request{}, false
	}
	return c.requests[i], true
}

// Drop takes the requests for these very keys out of the claim, and reports
// whether it had them all. Each takes a binary search; it is for the next call
// of Requests to close the gaps.
func (c *Claim) Drop(keys ...Key) (all bool) {
	all = true
	for _, k := range keys {
		if i, ok := c.find(k); ok {
			c.requests[i].Mode = gone
			c.dropped++
		} else {
			all = false
		}
	}
	return all
}

func (c *Claim) find(k Key) (i int, ok bool) {
	if c.sorted < len(c.requests) {
		c.Requests()
	}
	i, ok = slices.BinarySearchFunc(c.requests, k, func(r Request, k Key) int { return r.Key.Compare(k) })
	return i, ok && c.requests[i].Mode != gone
}

// Reset empties the claim and keeps its memory, unless that is for more than 64
// requests, for the next use.
func (c *Claim) Reset() {
	if cap(c.requests) > 64 {
		c.requests = nil
	}
	for i := range c.requests {
		c.requests[i].Key = Key{}
	}
	c.requests, c.sorted, c.dropped = c.requests[:0], 0, 0
}

// Requests returns the normalised requests in tree order. The slice is the
// claim's own and valid until the claim changes.
func (c *Claim) Requests() []Request {
	if c.dropped > 0 {
		c.requests = slices.DeleteFunc(c.requests, func(r Request) bool { return r.Mode == gone })
		c.sorted -= c.dropped
		c.dropped = 0
	}
	if c.sorted < len(c.requests) {
		c.normalise()
	}
	return c.requests
}

// normalise sorts the requests and drops the covered ones. In tree order, an
// earlier request that covers r is the last exclusive or the last shared one
// kept so far: had another of its mode been kept in between, that one would
// lie in the subtree too and have been dropped.
func (c *Claim) normalise() {
	if len(c.requests) > 1 {
		slices.SortFunc(c.requests, func(a, b Request) int {
			return cmp.Or(a.Key.Compare(b.Key), cmp.Compare(a.Mode, b.Mode))
		})
		last := [...]int{Exclusive: -1, Shared: -1}
		kept := c.requests[:0]
		for _, r := range c.requests {
			if i := last[Exclusive]; i >= 0 && kept[i].covers(r) {
				continue
			}
			if i := last[Shared]; i >= 0 && kept[i].covers(r) {
				continue
			}
			last[r.Mode] = len(kept)
			kept = append(kept, r)
		}
		clear(c.requests[len(kept):])
		c.requests = kept
	}
	c.sorted = len(c.requests)
}

// Conflicts tells whether any request of c conflicts with any of other. It
// compares all pairs and is the yardstick that [Set] is tested against.
func (c *Claim) Conflicts(other *Claim) bool {
	for _, a := range c.Requests() {
		for _, b := range other.Requests() {
			if Conflicts(a, b) {
				return true
			}
		}
	}
	return false
}
