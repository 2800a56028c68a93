package inspect

import (
	"errors"
	"net/http"

	"github.com/interlock-go/interlock/dispatcher/health"
)

// serveView answers with a view, as JSON.
func (in *Inspector) serveView(w http.ResponseWriter, r *http.Request) {
	a, err := in.asks(r)
	if err != nil {
		writeError(w, http.StatusNotFound, err)
		return
	}
	seen, err := a.look()
	if err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	writeJSON(w, http.StatusOK, seen)
}

// serveWhy answers why messages are where they are, a sentence each, as many as a view
// has.
func (in *Inspector) serveWhy(w http.ResponseWriter, r *http.Request) {
	a, err := in.asks(r)
	if err != nil {
		writeError(w, http.StatusNotFound, err)
		return
	}
	if a.search == "" {
		writeError(w, http.StatusBadRequest, errors.New("say of what: ?q= and the ID of a message, a part of a name, or a key"))
		return
	}
	seen, err := a.look()
	if err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	type sentence struct {
		ID  uint64 `json:"id"`
		Why string `json:"why"`
	}
	list := []sentence{}
	for _, m := range seen.Messages[:min(len(seen.Messages), in.config.Limit)] {
		list = append(list, sentence{m.ID, why(seen.At, m, seen.others)})
	}
	writeJSON(w, http.StatusOK, list)
}

// serveHealth answers how all sources do: with status 200 if all work, and 503 if one is
// stalled, has stopped or cannot be looked at.
func (in *Inspector) serveHealth(w http.ResponseWriter, _ *http.Request) {
	all, status := map[string]health.Health{}, http.StatusOK
	for _, seen := range in.lookAll() {
		h := seen.Health
		all[seen.Name] = h
		if !h.Works() {
			status = http.StatusServiceUnavailable
		}
	}
	writeJSON(w, status, all)
}

func (in *Inspector) serveTimeline(w http.ResponseWriter, r *http.Request) {
	a, err := in.asks(r)
	if err != nil {
		writeError(w, http.StatusNotFound, err)
		return
	}
	writeJSON(w, http.StatusOK, in.lately(a.source))
}

// lately returns the timeline of a source.
func (in *Inspector) lately(s *source) []Life {
	if s.Timeline == nil {
		return nil
	}
	lives := s.Timeline.Lately(in.config.Limit)
	for i := range lives {
		lives[i].Name, lives[i].Err = in.config.Redact(lives[i].Name), in.config.Redact(lives[i].Err)
	}
	return lives
}
