package inspect

import (
	"cmp"
	"slices"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// HotKey is a key that messages wait for.
type HotKey struct {
	Key lockkeys.Key `json:"key"`
	// Share is the share of the key among what messages have waited for since the
	// source is watched, older times counting less: from 0 to 1.
	Share float64 `json:"share"`
	// Queue is the number of messages that wait for it now, and Oldest how long the first
	// of them has waited; in JSON in nanoseconds.
	Queue  int           `json:"queue"`
	Oldest time.Duration `json:"oldest_ns"`
}

// Text returns the key for a search: one without "/" is told from a name by a "/" behind it.
func (h HotKey) Text() string { return searchText(h.Key) }

const (
	maxHot   = 64          // keys that are counted at a time
	halfLife = time.Minute // after which what was counted counts half
)

// hotKeys counts what messages wait for, in bounded memory: a key that is not among the
// maxHot counted ones takes the place of the least, with its count, so that a count is too
// high by that at most. A. Metwally et al., "Efficient Computation of Frequent and Top-k
// Elements in Data Streams" (2005), DOI 10.1007/978-3-540-30570-5_27 (Space-Saving).
type hotKeys struct {
	counts map[lockkeys.Key]float64
	total  float64
	halved time.Time
}

// note counts each message that waits once.
func (h *hotKeys) note(seen *Seen) {
	if h.counts == nil {
		h.counts, h.halved = map[lockkeys.Key]float64{}, seen.At
	}
	if seen.At.Sub(h.halved) >= halfLife {
		h.halved = seen.At
		h.total /= 2
		for k := range h.counts {
			if h.counts[k] /= 2; h.counts[k] < 0.5 {
				delete(h.counts, k)
			}
		}
	}
	for _, m := range seen.Messages {
		if m.State != stateWaiting || m.Blocker == 0 {
			continue
		}
		h.total++
		if _, counted := h.counts[m.Blocks.Key]; !counted && len(h.counts) >= maxHot {
			least, count := h.least()
			delete(h.counts, least)
			h.counts[m.Blocks.Key] = count
		}
		h.counts[m.Blocks.Key]++
	}
}

func (h *hotKeys) least() (least lockkeys.Key, count float64) {
	first := true
	for k, c := range h.counts {
		if first || c < count {
			least, count, first = k, c, false
		}
	}
	return least, count
}

// list returns the keys counted, the hottest first.
func (h *hotKeys) list(seen *Seen) []HotKey {
	list := make([]HotKey, 0, len(h.counts))
	for k, count := range h.counts {
		list = append(list, HotKey{Key: k, Share: min(count/max(h.total, 1), 1)})
	}
	slices.SortFunc(list, func(a, b HotKey) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), a.Key.Compare(b.Key))
	})
	at := make(map[lockkeys.Key]int, len(list))
	for i, k := range list {
		at[k.Key] = i
	}
	for _, m := range seen.Messages {
		if i, counted := at[m.Blocks.Key]; counted && m.State == stateWaiting && m.Blocker != 0 {
			list[i].Queue++
			list[i].Oldest = max(list[i].Oldest, seen.At.Sub(m.Since))
		}
	}
	return list
}
