package inspect

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/lockkeys"
)

// asked is what a request is about.
type asked struct {
	source *source
	tab    string
	search string // as it was typed
}

// asks reads a request.
func (in *Inspector) asks(r *http.Request) (asked, error) {
	q := r.URL.Query()
	a := asked{tab: q.Get("tab"), search: strings.TrimSpace(q.Get("q")), source: in.sources[0]}
	if name := q.Get("source"); name != "" {
		if a.source = in.byName[name]; a.source == nil {
			return a, fmt.Errorf("there is no source %.80q", name)
		}
	}
	if a.tab == "" {
		a.tab = tabs[0].ID
	}
	for _, t := range tabs {
		if t.ID == a.tab {
			return a, nil
		}
	}
	return a, fmt.Errorf("there is no tab %.80q", a.tab)
}

// searchText returns what to type to search for a key, and for nothing else.
func searchText(k lockkeys.Key) string { return k.String() + "/" }

// searchLimit bounds the messages that are searched by name.
const searchLimit = 5000

// look returns what is seen of what was asked for: everything; or a message by its ID, with
// those that it waits for; messages by a part of their names; or what conflicts with a key.
func (a asked) look() (*Seen, error) {
	if a.search == "" {
		return a.source.look(view.Query{}), nil
	}
	if id, err := strconv.ParseUint(strings.TrimPrefix(a.search, "#"), 10, 64); err == nil && id > 0 {
		return a.source.look(view.Query{ID: id}), nil
	}
	if !strings.Contains(a.search, "/") {
		all := a.source.look(view.Query{Limit: searchLimit})
		found := *all
		found.Messages = nil
		for _, m := range all.Messages {
			if strings.Contains(strings.ToLower(m.Name), strings.ToLower(a.search)) {
				found.Messages = append(found.Messages, m)
			}
		}
		if len(found.Messages) > 0 {
			return &found, nil
		}
	}
	key, err := lockkeys.Parse(strings.TrimSuffix(a.search, "/"))
	if err != nil {
		return nil, fmt.Errorf("%.80q is neither the ID of a message, nor a part of a name, nor a key: %w", a.search, err)
	}
	return a.source.look(view.Query{Key: key}), nil
}
