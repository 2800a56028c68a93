package ordering

import "time"

// idleList is the streams with nothing on their way, in the order in which
// they came to rest.
type idleList struct {
	ends  stream // ends.newer is the least recent one, ends.older the most recent
	len   int
	epoch uint64 // counts quarters of IdleTTL
}

func (l *idleList) init() { l.ends.older, l.ends.newer = &l.ends, &l.ends }

func (l *idleList) push(st *stream) {
	st.idle, st.epoch = true, l.epoch
	st.older, st.newer = l.ends.older, &l.ends
	st.older.newer, l.ends.older = st, st
	l.len++
}

func (l *idleList) remove(st *stream) {
	if !st.idle {
		return
	}
	st.idle = false
	st.older.newer, st.newer.older = st.newer, st.older
	st.older, st.newer = nil, nil
	l.len--
}

// restLocked puts a stream to rest if nothing of it is on its way. A stream
// that has ended leaves memory.
func (s *Sequencer) restLocked(st *stream) {
	if st.gone || st.idle || st.parking != nil || !st.quiet() {
		return
	}
	if st.ended > 0 && st.next > st.ended {
		s.forgetLocked(st)
		return
	}
	s.mu.idle.push(st)
	s.evictLocked()
}

// evictLocked lets the least recently used streams go that are too many.
func (s *Sequencer) evictLocked() {
	for s.mu.idle.len > s.cfg.MaxActive {
		s.evictOneLocked()
	}
}

func (s *Sequencer) evictOneLocked() {
	st := s.mu.idle.ends.newer
	s.mu.idle.remove(st)
	s.forgetLocked(st)
}

func (s *Sequencer) forgetLocked(st *stream) {
	st.gone = true
	delete(s.mu.streams, st.key)
}

// evictParkingsLocked lets parkings go, with their streams, of which nothing has
// changed for long.
func (s *Sequencer) evictParkingsLocked() {
	for _, p := range s.mu.parkings {
		if p.dirty || s.mu.idle.epoch-p.epoch < 4 || !s.isQuietLocked(p) {
			continue
		}
		for _, st := range s.endParkingLocked(p) {
			s.forgetLocked(st)
		}
	}
}

func (s *Sequencer) isQuietLocked(p *parking) bool {
	for key := range p.streams {
		if st := s.mu.streams[key]; st != nil && !st.quiet() {
			return false
		}
	}
	return true
}

// endsLocked takes note of a stream's last number.
func (s *Sequencer) endsLocked(st *stream, last uint64, a *after) {
	st.ended = last
	for n, t := range st.early {
		if n > last {
			s.leaveEarlyLocked(t)
			s.checkLocked(t)
			s.lookAgainLocked(t, a) // only now, since its streams may come to rest by that
		}
	}
}

// tidy lets streams go that have been idle for long, and job states that are
// past their retention.
func (s *Sequencer) tidy() {
	quarter := max(s.cfg.IdleTTL/4, time.Millisecond)
	idle := time.NewTicker(quarter)
	defer idle.Stop()
	var prune <-chan time.Time
	if s.cfg.Retention > 0 {
		ticker := time.NewTicker(min(max(s.cfg.Retention/10, time.Second), time.Hour))
		defer ticker.Stop()
		prune = ticker.C
	}
	for {
		select {
		case <-idle.C:
			s.mu.Lock()
			s.mu.idle.epoch++
			for l := &s.mu.idle; l.len > 0 && l.epoch-l.ends.newer.epoch >= 4; {
				s.evictOneLocked()
			}
			s.evictParkingsLocked()
			s.mu.Unlock()
		case <-prune:
			if _, err := s.cfg.Store.Prune(s.background, time.Now().Add(-s.cfg.Retention)); err != nil && s.background.Err() == nil {
				s.cfg.Logger.Warn("job states could not be pruned", "err", err)
			}
		case <-s.background.Done():
			return
		}
	}
}
