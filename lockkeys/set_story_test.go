package lockkeys

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"
	"weak"

	"github.com/stretchr/testify/require"
)

// story is a set whose places are called by name.
type story struct {
	t      *testing.T
	set    Set[string]
	places map[string]*Place[string]
}

func tell(t *testing.T) *story { return &story{t: t, places: map[string]*Place[string]{}} }

func (s *story) add(name string, requests ...Request) bool {
	s.t.Helper()
	require.NotContains(s.t, s.places, name)
	p := &Place[string]{Owner: name}
	s.places[name] = p
	granted := s.set.Add(p, NewClaim(requests...))
	require.Equal(s.t, granted, p.Granted())
	require.True(s.t, p.InSet())
	return granted
}

func (s *story) granted(name string, requests ...Request) {
	s.t.Helper()
	require.True(s.t, s.add(name, requests...), "%s is granted", name)
}

func (s *story) waits(name string, requests ...Request) {
	s.t.Helper()
	require.False(s.t, s.add(name, requests...), "%s waits", name)
}

// ends removes a claim, granted or waiting, and asserts which are granted as a
// result.
func (s *story) ends(name string, grants ...string) {
	s.t.Helper()
	p := s.places[name]
	delete(s.places, name)
	s.grants(s.set.Remove(p, nil), grants)
	require.False(s.t, p.InSet())
}

// shrinks removes keys from a claim, and asserts which are granted as a result.
func (s *story) shrinks(name string, keys []Key, grants ...string) {
	s.t.Helper()
	s.grants(s.set.Shrink(s.places[name], keys, nil), grants)
}

func keys(texts ...string) (keys []Key) {
	for _, text := range texts {
		keys = append(keys, MustParse(text))
	}
	return keys
}

func (s *story) grants(woken []*Place[string], want []string) {
	s.t.Helper()
	var got []string
	for _, p := range woken {
		require.True(s.t, p.Granted())
		got = append(got, p.Owner)
	}
	require.ElementsMatch(s.t, want, got)
}

// all returns the result of All as text.
func (s *story) all() (lines []string) {
	for r, p := range s.set.All() {
		lines = append(lines, fmt.Sprintf("%v: %s", r, p.Owner))
	}
	return lines
}

func (s *story) empty() {
	s.t.Helper()
	require.Zero(s.t, s.set.Len())
	require.Zero(s.t, s.set.used)
	require.Empty(s.t, s.all())
	require.Empty(s.t, s.places)
}

func TestSetZeroValue(t *testing.T) {
	var s Set[string]
	require.Zero(t, s.Len())
	for range s.All() {
		require.Fail(t, "there is nothing in it")
	}
	var p Place[string]
	require.False(t, p.InSet())
	_, _, blocked := s.Blocker(&p)
	require.False(t, blocked)
	_, ok := s.Behind(&p, nobody)
	require.False(t, ok)

	require.True(t, s.Add(&p, NewClaim(exclusively("a"))))
	require.Equal(t, 1, s.Len())
}

func TestSetMisuse(t *testing.T) {
	var s Set[string]
	var holder, waiter, stranger Place[string]
	a := NewClaim(exclusively("a"), exclusively("b"))
	s.Add(&holder, NewClaim(exclusively("a")))
	s.Add(&waiter, a)
	for want, misuse := range map[string]func(){
		"lockkeys: Set.Add of a place that is in use":         func() { s.Add(&holder, a) },
		"lockkeys: Set.Remove of a place that is not in use":  func() { s.Remove(&stranger, nil) },
		"lockkeys: Set.Shrink of a place that is not in use":  func() { s.Shrink(&stranger, keys("a"), nil) },
		"lockkeys: Set.Shrink of a place that is not granted": func() { s.Shrink(&waiter, keys("a"), nil) },
	} {
		require.PanicsWithValue(t, want, misuse)
	}
	s.Remove(&waiter, nil)
	require.PanicsWithValue(t, "lockkeys: Set.Remove of a place that is not in use", func() { s.Remove(&waiter, nil) }, "the second time")
	require.Equal(t, 1, s.Len())
	require.True(t, holder.Granted())
}

// A client's accounts are used side by side; what needs the whole client waits
// for them, and what comes later waits for that.
func TestSetClientAndAccounts(t *testing.T) {
	s := tell(t)
	s.granted("deposit 7", exclusively("client/42/account/7"))
	s.granted("deposit 8", exclusively("client/42/account/8"))
	s.granted("other client", exclusively("client/4"))
	s.waits("close", exclusively("client/42"))
	s.waits("withdraw 7", exclusively("client/42/account/7"))
	s.waits("withdraw 9", exclusively("client/42/account/9"))
	s.ends("deposit 7")
	s.ends("other client")
	s.ends("deposit 8", "close")
	s.ends("close", "withdraw 7", "withdraw 9")
	s.ends("withdraw 9")
	s.ends("withdraw 7")
	s.empty()
}

// Transfers there and back cannot wait for each other: each takes both keys
// at once or waits for both.
func TestSetMirroredTransfers(t *testing.T) {
	s := tell(t)
	s.granted("there", exclusively("a"), exclusively("b"))
	s.waits("back", exclusively("b"), exclusively("a"))
	s.waits("only b", exclusively("b"))
	s.ends("there", "back")
	s.ends("back", "only b")
	s.ends("only b")
	s.empty()
}

// Readers go together, but no later reader passes a writer that waits.
func TestSetReadersAndWriter(t *testing.T) {
	s := tell(t)
	s.granted("reader 1", sharing("a"))
	s.granted("reader 2", sharing("a/b"))
	s.waits("writer", exclusively("a/b"))
	s.granted("reader 3", sharing("a/c"))
	s.waits("reader 4", sharing("a"))
	s.waits("reader 5", sharing("a/b/c"))
	s.ends("reader 1")
	s.ends("reader 2", "writer")
	s.ends("writer", "reader 4", "reader 5")
	s.ends("reader 3")
	s.ends("reader 4")
	s.ends("reader 5")
	s.empty()
}

// The root conflicts with every key, but not with a claim of no key.
func TestSetRootAndNothing(t *testing.T) {
	s := tell(t)
	s.granted("end of day", exclusively("/"))
	s.granted("nothing")
	s.waits("client", exclusively("client/42"))
	require.Equal(t, []string{"/: end of day", "client/42: client"}, s.all())
	require.Equal(t, 3, s.set.Len())
	s.ends("nothing")
	s.ends("end of day", "client")
	s.ends("client")
	s.empty()
}

// A claim that is withdrawn while it waits leaves nothing behind, and those
// that waited for it alone go on.
func TestSetWithdrawal(t *testing.T) {
	s := tell(t)
	s.granted("reader", sharing("a"))
	before := s.all()
	s.waits("writer", exclusively("a/b"), exclusively("c"))
	s.waits("late reader", sharing("a/b"))
	s.waits("c", exclusively("c"))
	s.ends("writer", "late reader", "c")
	s.ends("late reader")
	s.ends("c")
	require.Equal(t, before, s.all())
	s.ends("reader")
	s.empty()
}

func TestSetManyWaitersOneByOne(t *testing.T) {
	const waiters = 10_000
	var s Set[int]
	places := make([]Place[int], waiters)
	hot := NewClaim(exclusively("client/hot"))
	for i := range places {
		places[i].Owner = i
		require.Equal(t, i == 0, s.Add(&places[i], hot))
	}
	var woken []*Place[int]
	for i := range places {
		woken = s.Remove(&places[i], woken[:0])
		if i+1 == waiters {
			require.Empty(t, woken)
		} else if len(woken) != 1 || woken[0].Owner != i+1 {
			require.Fail(t, "wrong grant", "after %d: %v", i, woken)
		}
	}
	require.Zero(t, s.Len())
}

// A claim of a subtree waits for each of the many below, and they for it; to
// add and to remove it costs no more than elsewhere.
func TestSetOneSubtreeManyChildren(t *testing.T) {
	const children = 10_000
	var s Set[int]
	add := func(p *Place[int], requests ...Request) bool { return s.Add(p, NewClaim(requests...)) }
	before, after := make([]Place[int], children), make([]Place[int], children)
	for i := range before {
		require.True(t, add(&before[i], Request{Key: Must("client", fmt.Sprint(i))}))
	}
	var all Place[int]
	require.False(t, add(&all, exclusively("client")))
	for i := range after {
		require.False(t, add(&after[i], Request{Key: Must("client", fmt.Sprint(i))}))
	}
	for i := range before {
		require.False(t, all.Granted())
		woken := s.Remove(&before[i], nil)
		if i < children-1 {
			require.Empty(t, woken)
		} else {
			require.Equal(t, []*Place[int]{&all}, woken)
		}
	}
	require.Len(t, s.Remove(&all, nil), children)
	for i := range after {
		require.Empty(t, s.Remove(&after[i], nil))
	}
	require.Zero(t, s.used)
}

func TestSetStopsYielding(t *testing.T) {
	s := tell(t)
	s.granted("p", exclusively("a"), exclusively("b"))
	for r := range s.set.All() {
		require.Equal(t, exclusively("a"), r)
		break
	}
}

func TestSetAllocations(t *testing.T) {
	one := NewClaim(exclusively("client/42/account/7"))
	two := NewClaim(exclusively("client/42/account/7"), sharing("client/43/account/8"))
	for name, claim := range map[string]*Claim{"one key": one, "two keys": two} {
		var s Set[int]
		var held, p, waiter Place[int]
		s.Add(&held, NewClaim(exclusively("client/1")))
		woken := make([]*Place[int], 0, 1)
		allocs := testing.AllocsPerRun(100, func() {
			s.Add(&p, claim)
			s.Add(&waiter, claim)
			woken = s.Remove(&p, woken[:0])
			woken = s.Remove(&waiter, woken[:0])
		})
		require.Zero(t, allocs, name)
	}
}

// A set does not keep alive what has been removed from it: neither a place and
// its owner, nor the message that a key of one segment is a part of.
func TestSetForgetsOwners(t *testing.T) {
	type owner [1 << 16]byte
	var (
		s      Set[*owner]
		owners []weak.Pointer[owner]
		texts  []weak.Pointer[byte]
	)
	for range 5 { // leaves free runs behind, and uses them again
		places := make([]*Place[*owner], 40)
		for i := range places {
			o, text := new(owner), strings.Repeat("k", 1<<16)
			owners = append(owners, weak.Make(o))
			texts = append(texts, weak.Make(unsafe.StringData(text)))
			places[i] = &Place[*owner]{Owner: o}
			key := Must(text[:1+i%3])
			if i%4 == 0 {
				key, _ = key.Child("below")
			}
			s.Add(places[i], NewClaim(Request{key, Mode(i % 2)}))
		}
		for _, i := range []int{20, 22, 21, 39, 0} {
			s.Remove(places[i], nil)
			places[i] = nil
		}
		for _, p := range slices.Backward(places) {
			if p != nil {
				s.Remove(p, nil)
			}
		}
	}
	runtime.GC()
	runtime.GC()
	for i := range owners {
		require.Nil(t, owners[i].Value(), "owner %d", i)
		require.Nil(t, texts[i].Value(), "text %d", i)
	}
	require.Zero(t, s.Len())
}

// A burst of claims leaves no more nodes behind than maxIdleNodes allows, and
// no table with room for them.
func TestSetAfterABurst(t *testing.T) {
	var s Set[int]
	places := make([]Place[int], 10*smallIndex)
	var c Claim
	for i := range places {
		c.Reset()
		c.Exclusive(Must("burst", fmt.Sprint(i)), Must("hot"))
		c.Shared(Must("readers", fmt.Sprint(i%7)))
		s.Add(&places[i], &c)
	}
	require.Equal(t, 3+len(places)+7+1, s.nodes.len())
	for i := range places {
		s.Remove(&places[i], nil)
	}
	require.LessOrEqual(t, s.nodes.len(), maxIdleNodes+1)
	require.Equal(t, smallIndex, s.nodes.peak)
}
