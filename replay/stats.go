package replay

import "errors"

// Stats counts what a [Replayer] has done. Numbers only rise, but for Open.
type Stats struct {
	Replays    uint64 // calls of Replay that have ended
	Joined     uint64 // times that a call shared the requests of another one
	Unanswered uint64 // calls that ended with an UnansweredError
	Open       int    // ranges that are asked for at this time
	Sources    []SourceStats
}

// SourceStats counts what a source has done.
type SourceStats struct {
	Name     string
	Requests uint64
	Errors   uint64 // requests that gave an error or a bad answer
	Events   uint64 // events given, repeated ones included
	Breaker  string // "closed", "open" or "half-open"
}

// Stats returns the counts as they are now.
func (r *Replayer) Stats() Stats {
	r.mu.Lock()
	stats := r.mu.stats
	r.mu.Unlock()
	for _, s := range r.sources {
		stats.Sources = append(stats.Sources, s.stats())
	}
	return stats
}

func (s *source) stats() SourceStats {
	state := s.breaker.State()
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.mu.stats
	stats.Breaker = state.String()
	return stats
}

func (r *Replayer) countReplay(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.stats.Replays++
	if e := (*UnansweredError)(nil); errors.As(err, &e) {
		r.mu.stats.Unanswered++
	}
}
