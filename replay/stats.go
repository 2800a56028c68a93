package replay

// Stats counts what a [Replayer] has done. Numbers only rise, but for Open.
type Stats struct {
	Replays    uint64 // calls of Replay that have ended
	Unanswered uint64 // calls that ended with an UnansweredError
	Open       int    // calls that have not ended
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

func (r *Replayer) count(what func(s *Stats)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	what(&r.mu.stats)
}
