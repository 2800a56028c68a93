package bench

import (
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// frontier has, for messages recorded so far, the latest moment at which any
// that conflicts with given keys ended. Messages are recorded in the order in
// which they arrived; all claims are exclusive. It takes time linear in the
// depth of a key, however many messages there are.
type frontier map[lockkeys.Key]*mark

// mark is the latest end of messages that claim a key itself, and of those
// that claim it or any key below it.
type mark struct{ at, under time.Duration }

// latest returns the latest end among messages that conflict with keys.
func (f frontier) latest(keys []lockkeys.Key) (end time.Duration) {
	for _, k := range keys {
		if m := f[k]; m != nil {
			end = max(end, m.under)
		}
		for up, ok := k.Parent(); ok; up, ok = up.Parent() {
			if m := f[up]; m != nil {
				end = max(end, m.at)
			}
		}
	}
	return end
}

// record notes that a message with these keys ended.
func (f frontier) record(keys []lockkeys.Key, end time.Duration) {
	for _, k := range keys {
		f.mark(k).at = max(f.mark(k).at, end)
		for up, ok := k, true; ok; up, ok = up.Parent() {
			f.mark(up).under = max(f.mark(up).under, end)
		}
	}
}

func (f frontier) mark(k lockkeys.Key) *mark {
	m := f[k]
	if m == nil {
		m = new(mark)
		f[k] = m
	}
	return m
}

// longestChain returns the length of the longest chain of messages, given in
// arrival order, of which each conflicts with the one before it: what no
// number of workers can be faster than.
func longestChain(msgs []*message) (longest time.Duration) {
	f := make(frontier)
	for _, m := range msgs {
		end := f.latest(m.keys) + (m.end - m.start)
		f.record(m.keys, end)
		longest = max(longest, end)
	}
	return longest
}

// outOfOrder returns the first message, by its place in arrival order, that
// began before an earlier one with which it conflicts had ended; -1 if there
// is none.
func outOfOrder(msgs []*message) int {
	f := make(frontier)
	for i, m := range msgs {
		if m.start < f.latest(m.keys) {
			return i
		}
		f.record(m.keys, m.end)
	}
	return -1
}
