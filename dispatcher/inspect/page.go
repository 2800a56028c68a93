package inspect

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/internal/human"
)

//go:embed pages/*.html
var pages embed.FS

// tab is a part of the page.
type tab struct{ ID, Name string }

var tabs = []tab{
	{"overview", "Overview"}, {"keys", "Keys"}, {"blocked", "Who blocks whom"}, {"hot", "Hot keys"},
	{"parked", "Parked"}, {"timeline", "Timeline"}, {"audit", "Audit"},
}

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"ago":       human.Since,
	"short":     human.Duration,
	"title":     view.Message.Title,
	"why":       func(s *Seen, m view.Message) string { return why(s.At, m, s.others) },
	"request":   requestText,
	"percent":   func(f float64) string { return fmt.Sprintf("%.0f %%", 100*f) },
	"args":      func(list ...any) []any { return list },
	"lifeTitle": lifeTitle,
	"part":      partText,
	"utc":       func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
}).ParseFS(pages, "pages/*.html"))

// page is what the templates show.
type page struct {
	Tabs    []tab
	Sources []*Seen // all, for the list of them
	Tab     string
	Search  string
	Problem string // what was asked for is not there
	Seen    *Seen
	CanAct  bool
	Shows   bool // payloads
	Tree    *keyNode
	Graph   graph
	Chart   *chart // nil if nothing is recorded
	Parked  []view.Message
	Longest []view.Message // those that have waited longest
	Deeds   []Deed
	Query   string // of the page
}

// Open returns the address of the payloads of a row, "" if they are not to be seen.
func (p page) Open(r view.Row) string {
	if !r.Opens || !p.Shows {
		return ""
	}
	return "payload?" + url.Values{"source": {p.Seen.Name}, "tab": {p.Tab}, "target": {r.Target}}.Encode()
}

// Link returns the address of another tab or source, of the same search.
func (p page) Link(source, tab, search string) string {
	return "./?" + url.Values{"source": {source}, "tab": {tab}, "q": {search}}.Encode()
}

func (in *Inspector) pageOf(a asked) page {
	p := page{Tabs: tabs, Tab: a.tab, Search: a.search, CanAct: in.can(a.source), Shows: in.config.Show != nil}
	p.Query = url.Values{"source": {a.source.Name}, "tab": {a.tab}, "q": {a.search}}.Encode()
	p.Sources = in.lookAll()
	seen, err := a.look()
	if err != nil {
		p.Problem = err.Error()
		a.search = ""
		seen, _ = a.look()
	}
	p.Seen = seen
	switch a.tab {
	case "keys":
		p.Tree = tree(seen.Messages)
	case "blocked":
		p.Graph = graphOf(seen.Messages)
	case "timeline":
		if a.source.Timeline != nil {
			c := chartOf(in.lately(a.source), seen.At)
			p.Chart = &c
		}
	case "audit":
		p.Deeds = in.audit.list()
	}
	for _, m := range seen.Messages {
		switch {
		case m.State == stateParked:
			p.Parked = append(p.Parked, m)
		case a.search != "" && len(p.Longest) < in.config.Limit, m.State == stateWaiting && len(p.Longest) < mostLongest:
			p.Longest = append(p.Longest, m)
		}
	}
	return p
}

// mostLongest bounds the messages for which the overview says why they wait.
const mostLongest = 10

func (in *Inspector) servePage(w http.ResponseWriter, r *http.Request) {
	a, err := in.asks(r)
	if err != nil {
		w.WriteHeader(http.StatusNotFound)
		in.writeFailure(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	in.write(w, "page", in.pageOf(a))
}

// writeFailure writes a page that says what went wrong.
func (in *Inspector) writeFailure(w http.ResponseWriter, err error) {
	in.write(w, "failure", struct{ Err string }{err.Error()})
}

// write executes a template as a whole, or says that it cannot.
func (in *Inspector) write(w io.Writer, name string, data any) {
	text, err := render(name, data)
	if err != nil {
		in.config.Logger.Error("inspect: the page cannot be written", "err", err)
		text = []byte("the page cannot be written: " + template.HTMLEscapeString(err.Error()))
	}
	_, _ = w.Write(text)
}

func render(name string, data any) ([]byte, error) {
	var b bytes.Buffer
	err := templates.ExecuteTemplate(&b, name, data)
	return b.Bytes(), err
}
