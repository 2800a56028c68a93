package lockkeys

import (
	"cmp"
	"slices"
)

// Claim is the set of requests of one message, granted all together or not at
// all. A message's own requests never conflict with each other: a claim is
// normalised, which removes duplicates and requests that a wider one covers.
// Normalising does not change what the claim covers.
//
// The zero Claim is empty and conflicts with nothing. A Claim is not safe for
// concurrent use. Copy it with [Claim.Copy] only: a copy made by assignment
// shares its first requests with the original, and changes with it (go vet
// reports it, as it does for a mutex). A function that is given a Claim to add
// requests to must not keep it after it returns: the owner resets the claim and
// reuses it. To keep its contents, use Copy.
//
// Invariant: requests[:sorted] is in tree order and none of them covers
// another; the rest was added later. Requests dropped later have the mode gone,
// and dropped counts them. The first requests have digests, digested of them,
// since the last change.
type Claim struct {
	_        noCopy
	requests []Request
	sorted   int
	dropped  int
	few      [2]Request // the first backing array of requests
	digests  [2]digest
	digested int
}

// noCopy makes go vet report copies of a struct that contains it.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// gone replaces the mode of a request that was dropped.
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

// Add adds requests. An unknown mode counts as exclusive.
func (c *Claim) Add(requests ...Request) {
	c.grow(len(requests))
	for _, r := range requests {
		if r.Mode != Shared {
			r.Mode = Exclusive
		}
		c.requests = append(c.requests, r)
	}
}

// grow is called before n requests are added. It makes a claim of few requests
// use the array few, so that it allocates nothing.
func (c *Claim) grow(n int) {
	c.digested = 0
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
	c.digests, c.digested = from.digests, from.digested
}

// digest is what a set needs of a key and takes time to compute.
type digest struct {
	depth int32
	hash  uint32
}

func digestOf(k Key) digest { return digest{int32(k.Depth()), hashOf(k)} }

// Digest normalises the claim and computes what adding it to a set takes, so
// that this takes less time: useful if a mutex guards the set, and the claim is
// made before that is locked. Any change of the claim undoes it.
func (c *Claim) Digest() {
	requests := c.Requests()
	for c.digested < min(len(requests), len(c.digests)) {
		c.digests[c.digested] = digestOf(requests[c.digested].Key)
		c.digested++
	}
}

// digest returns the digest of the request with this index.
func (c *Claim) digest(i int) digest {
	if i < c.digested {
		return c.digests[i]
	}
	return digestOf(c.requests[i].Key)
}

// Find returns the claim's request for exactly this key, if there is one; a
// request for an ancestor does not count. It takes one binary search.
func (c *Claim) Find(k Key) (r Request, ok bool) {
	i, ok := c.find(k)
	if !ok {
		return Request{}, false
	}
	return c.requests[i], true
}

// Covers reports whether the claim has a request that covers r: one for the key
// of r or an ancestor of it, exclusive or, if r is shared, of either mode. The
// holder of the claim needs nothing more for r. It takes a binary search for
// each segment of the key.
func (c *Claim) Covers(r Request) bool {
	for depth := range r.Key.Depth() + 1 {
		if i, ok := c.find(r.Key.Ancestor(depth)); ok && c.requests[i].covers(r) {
			return true
		}
	}
	return false
}

// Drop removes the requests for exactly these keys, and reports whether the
// claim had all of them; a key that is given twice is missing the second time. Each key takes a binary search; the next call of
// Requests closes the gaps.
func (c *Claim) Drop(keys ...Key) (all bool) {
	all = true
	for _, k := range keys {
		if i, ok := c.find(k); ok {
			c.requests[i].Mode = gone
			c.dropped++
			c.digested = 0
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

// Reset empties the claim. It keeps the memory for the next use, unless that
// has room for more than 64 requests.
func (c *Claim) Reset() {
	if cap(c.requests) > 64 {
		c.requests = nil
	}
	for i := range c.requests {
		c.requests[i].Key = Key{}
	}
	c.requests, c.sorted, c.dropped, c.digested = c.requests[:0], 0, 0, 0
}

// Requests returns the normalised requests in tree order. The slice belongs to
// the claim and is valid until the claim changes.
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

// normalise sorts the requests and drops the covered ones. In tree order, a
// request that covers r can only be the last exclusive or the last shared one
// kept so far: any request of the same mode between it and r would lie in its
// subtree too, and would have been dropped.
func (c *Claim) normalise() {
	if len(c.requests) > 1 {
		if len(c.requests) > 2 {
			slices.SortFunc(c.requests, inTreeOrder)
		} else if r := c.requests; inTreeOrder(r[0], r[1]) > 0 {
			r[0], r[1] = r[1], r[0]
		}
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

// inTreeOrder compares requests; of those for one key, exclusive ones come first.
func inTreeOrder(a, b Request) int {
	return cmp.Or(a.Key.Compare(b.Key), cmp.Compare(a.Mode, b.Mode))
}

// Conflicts reports whether any request of c conflicts with any of other. It
// compares all pairs, and is the reference that [Set] is tested against.
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
