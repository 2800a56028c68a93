package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/interlock-go/interlock/dispatcher/view"
)

// maxShown bounds what is shown of a payload, in bytes.
const maxShown = 8 << 10

// maxIndented bounds a JSON text that is indented.
const maxIndented = 1 << 20

// readable returns what is shown of a payload: JSON is indented, what is no text is said to be
// binary, and what is too long is cut.
func readable(payload string) string {
	control := func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\t\n\r", r) }
	if !utf8.ValidString(payload) || strings.ContainsFunc(payload, control) {
		return fmt.Sprintf("binary, %d bytes, which begin with %q", len(payload), payload[:min(len(payload), 32)])
	}
	if len(payload) <= maxIndented {
		var indented bytes.Buffer
		if json.Indent(&indented, []byte(payload), "", "  ") == nil {
			payload = indented.String()
		}
	}
	if len(payload) <= maxShown {
		return payload
	}
	cut := maxShown
	for !utf8.RuneStart(payload[cut]) {
		cut--
	}
	return fmt.Sprintf("%s\n… and %d more bytes", payload[:cut], len(payload)-cut)
}

// shownPayload is something parked, as it is shown.
type shownPayload struct {
	Name    string `json:"name"`
	Payload string `json:"payload"`
}

// opened is the page of what is parked under a target.
type opened struct {
	Source, Target, Back string
	Payloads             []shownPayload
}

// errHidden is the error for payloads that the service does not show.
var errHidden = errors.New("payloads are not shown: the service has not set inspect.Config.Show")

// open reads what is parked under the target of a request.
func (in *Inspector) open(r *http.Request) (o opened, status int, err error) {
	a, err := in.asks(r)
	if err != nil {
		return o, http.StatusNotFound, err
	}
	o = opened{Source: a.source.Name, Target: r.URL.Query().Get("target"), Payloads: []shownPayload{}}
	o.Back = "./?" + url.Values{"source": {o.Source}, "tab": {a.tab}}.Encode()
	opener, is := a.source.Source.(view.Opener)
	switch {
	case in.config.Show == nil:
		return o, http.StatusForbidden, errHidden
	case !is:
		return o, http.StatusNotFound, fmt.Errorf("source %.80q has nothing to open", o.Source)
	}
	ctx, cancel := context.WithTimeout(r.Context(), lookAtMost)
	defer cancel()
	list, err := opener.Payloads(ctx, o.Target)
	if errors.Is(err, view.ErrAction) {
		return o, http.StatusBadRequest, errors.New(in.config.Redact(err.Error()))
	} else if err != nil {
		return o, http.StatusNotFound, errors.New(in.config.Redact(err.Error()))
	}
	for _, p := range list {
		o.Payloads = append(o.Payloads, shownPayload{in.config.Redact(p.Name), readable(in.config.Show(o.Source, p.Message))})
	}
	return o, http.StatusOK, nil
}

// servePayload shows what is parked under a target, as a page that is not updated.
func (in *Inspector) servePayload(w http.ResponseWriter, r *http.Request) {
	o, status, err := in.open(r)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if err != nil {
		in.writeFailure(w, err)
		return
	}
	in.write(w, "payload", o)
}

// servePayloadJSON is servePayload as JSON.
func (in *Inspector) servePayloadJSON(w http.ResponseWriter, r *http.Request) {
	o, status, err := in.open(r)
	if err != nil {
		writeError(w, status, err)
		return
	}
	writeJSON(w, status, o.Payloads)
}
