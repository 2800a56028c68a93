package core

import (
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// Rests reports whether the machine has nothing to read or write, and no fed
// event is in flight. Submitted events, and events that wait for a gap, may
// remain.
func (m *Machine) Rests() bool {
	w, l := &m.writes, &m.loads
	return m.fed == 0 && len(m.arrivals) == 0 && !l.loading && !l.looking && len(l.checks) == 0 && w.flying == nil &&
		len(w.parkings)+len(w.holds)+len(w.forgets)+len(w.decisions)+len(w.feeds) == 0
}

// Stats are current counts.
type Stats struct {
	Early      int // events that wait for earlier ones, and copies of them
	EarlyBytes int64
	Streams    int // in memory
	Idle       int // of those, the ones with nothing in flight
	Parkings   int
	Gaps       int
}

// Stats returns the counts. Its cost is linear in the streams in memory.
func (m *Machine) Stats() Stats {
	s := Stats{Early: m.early, EarlyBytes: m.earlyBytes, Streams: len(m.streams), Idle: m.idle.len, Parkings: len(m.parkings)}
	for _, st := range m.streams {
		if st.gap != nil {
			s.Gaps++
		}
	}
	return s
}

// StreamInfo describes a stream in memory.
type StreamInfo struct {
	Key     lockkeys.Key
	Next    uint64
	Running int
	Early   int
	Missing bool
	Since   time.Time
	Parking string
	HeldAt  uint64
}

// Streams describes the streams in memory that are not idle, in any order.
func (m *Machine) Streams() (infos []StreamInfo) {
	for _, st := range m.streams {
		if st.idle {
			continue
		}
		info := StreamInfo{Key: st.key, Next: st.next, Running: st.window.running, Early: len(st.early), Missing: st.gap != nil}
		if st.heldFrom != notHeld {
			info.HeldAt = st.heldFrom
		}
		if st.parking != nil {
			info.Parking, info.Since = st.parking.id, st.parking.since
		} else if first, _ := st.firstEarly(); first != nil {
			info.Since = first.arrived
		}
		infos = append(infos, info)
	}
	return infos
}
