package inspect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// serveStream sends the changing part of a page whenever it has changed, as server-sent
// events.
func (in *Inspector) serveStream(w http.ResponseWriter, r *http.Request) {
	a, err := in.asks(r)
	if err != nil {
		writeError(w, http.StatusNotFound, err)
		return
	}
	select {
	case in.viewers <- struct{}{}:
		defer func() { <-in.viewers }()
	default:
		writeError(w, http.StatusServiceUnavailable, fmt.Errorf("%d pages are being looked at: reload by hand", cap(in.viewers)))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	ticker := time.NewTicker(freshFor)
	defer ticker.Stop()
	var last []byte
	quiet := 0
	for {
		text, err := render("live", in.pageOf(a))
		if err != nil {
			in.config.Logger.Error("inspect: the page cannot be written", "err", err)
			return
		}
		switch {
		case !bytes.Equal(text, last):
			line, err := json.Marshal(string(text))
			if err != nil {
				return
			}
			if _, err := fmt.Fprintf(w, "data: %s\n\n", line); err != nil {
				return
			}
			last, quiet = text, 0
		case quiet >= 60: // so that whoever is between sees that it is alive
			if _, err := fmt.Fprint(w, ": alive\n\n"); err != nil {
				return
			}
			quiet = 0
		default:
			quiet++
		}
		_ = control.SetWriteDeadline(time.Now().Add(time.Minute)) // the server's limit is for a page
		if err := control.Flush(); err != nil {
			return
		}
		select {
		case <-ticker.C:
		case <-r.Context().Done():
			return
		case <-in.over.Done():
			return
		}
	}
}
