package inspect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/internal/contain"
)

// maxForm bounds what an action may send, and actAtMost how long it is waited for.
const (
	maxForm   = 16 << 10
	actAtMost = 30 * time.Second
)

// serveAct does an action: a form with source, action, target and why. A page sends its
// place too, and is shown again.
func (in *Inspector) serveAct(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	deed, status, err := in.act(r)
	if err != nil {
		if deed.Source != "" {
			deed.Err = in.config.Redact(contain.Text(err))
			err = errors.New(deed.Err) // as it may be shown
			in.audit.add(deed)
			in.config.Logger.Warn("inspect: an action could not be done", attrs(deed)...)
		}
		if back := r.PostForm.Get("back"); back != "" {
			w.WriteHeader(status)
			in.writeFailure(w, err)
			return
		}
		writeError(w, status, err)
		return
	}
	in.audit.add(deed)
	in.config.Logger.Warn("inspect: an operator has acted", attrs(deed)...)
	if back := r.PostForm.Get("back"); back != "" {
		values, err := url.ParseQuery(back)
		if err != nil {
			values = nil
		}
		goTo(w, "./?"+values.Encode(), http.StatusSeeOther)
		return
	}
	writeJSON(w, http.StatusOK, deed)
}

func attrs(d Deed) []any {
	list := []any{"source", d.Source, "action", d.Action.Name, "target", d.Action.Target, "operator", d.Who, "why", d.Why}
	if d.Err != "" {
		list = append(list, "err", d.Err)
	}
	return list
}

var (
	errReadOnly = errors.New("this page is read-only: the service has not set inspect.Config.Authorize")
	errNoWho    = errors.New("it is not known who you are: inspect.Config.Authorize has given no name")
	errNoWhy    = errors.New("say why: it is kept with the action")
)

// act does what a request wants done. status is for the error. The deed has a source if
// the request was authorized.
func (in *Inspector) act(r *http.Request) (deed Deed, status int, err error) {
	form := r.PostForm
	s := in.byName[form.Get("source")]
	if s == nil {
		return deed, http.StatusNotFound, errors.New("there is no such source")
	}
	operated, ok := s.Source.(view.Operated)
	if !ok {
		return deed, http.StatusNotFound, errors.New("nothing can be done with this source")
	}
	if in.config.Authorize == nil {
		return deed, http.StatusForbidden, errReadOnly
	}
	a := view.Action{Name: form.Get("action"), Target: form.Get("target")}
	who, err := in.config.Authorize(r, s.Name, a)
	if err == nil && who == "" {
		err = errNoWho
	}
	if err != nil {
		in.config.Logger.Warn("inspect: an action was refused", "source", s.Name, "action", a.Name, "target", a.Target, "from", r.RemoteAddr, "err", err)
		return deed, http.StatusForbidden, err
	}
	deed = Deed{At: time.Now(), Source: s.Name, Action: a, Who: who, Why: strings.TrimSpace(form.Get("why"))}
	if deed.Why == "" {
		return deed, http.StatusBadRequest, errNoWhy
	}
	// What becomes of it is waited for, and listed, also if the operator goes away meanwhile.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actAtMost)
	defer cancel()
	err = contain.Apart(func() error { return operated.Act(dispatcher.WithOperator(ctx, who, deed.Why), a) })
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("it is not known whether it was done, after %v: look again: %w", actAtMost, err)
		}
		if errors.Is(err, view.ErrAction) {
			return deed, http.StatusBadRequest, err
		}
		return deed, http.StatusConflict, err
	}
	s.forget()
	return deed, http.StatusOK, nil
}

// forget makes the next view a fresh one.
func (s *source) forget() {
	s.looking <- struct{}{}
	defer func() { <-s.looking }()
	clear(s.seen)
}

// can reports whether an action may be offered.
func (in *Inspector) can(s *source) bool {
	_, ok := s.Source.(view.Operated)
	return ok && in.config.Authorize != nil
}
