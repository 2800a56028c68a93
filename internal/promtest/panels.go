package promtest

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// Panel is a panel of a dashboard.
type Panel struct {
	Title   string
	Queries []string // as Grafana sends them, for all sources and a short interval
}

// Panels returns the panels of Grafana's dashboard in a file.
func Panels(t testing.TB, path string) (panels []Panel) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatalf("promtest: %s: %v", path, err)
	}
	for _, p := range dashboard.Panels {
		panel := Panel{Title: p.Title}
		for _, target := range p.Targets {
			query := strings.NewReplacer("$__rate_interval", "5s", "$name", ".*").Replace(target.Expr)
			if strings.Contains(query, "$") {
				t.Fatalf("promtest: panel %q has a variable that is not known: %s", p.Title, query)
			}
			panel.Queries = append(panel.Queries, query)
		}
		if len(panel.Queries) == 0 {
			t.Fatalf("promtest: panel %q has no query", p.Title)
		}
		panels = append(panels, panel)
	}
	if len(panels) == 0 {
		t.Fatalf("promtest: %s has no panels", path)
	}
	return panels
}

// AwaitNumbers waits until each of the queries has given a number, and tells the test of
// those that give none. It may be called by any goroutine of the test, and returns when that
// ends.
func (s *Server) AwaitNumbers(t testing.TB, queries []string) {
	t.Helper()
	gives := func(query string) string {
		values, err := s.Query(t.Context(), query)
		if err == nil && len(values) > 0 && !math.IsNaN(values[0]) {
			return ""
		}
		return fmt.Sprintf("%s gives %v (%v)", query, values, err)
	}
	for end := time.Now().Add(2 * waitAtMost); ; time.Sleep(100 * time.Millisecond) {
		var missing []string
		queries = slices.DeleteFunc(slices.Clone(queries), func(query string) bool {
			said := gives(query)
			if said != "" {
				missing = append(missing, said)
			}
			return said == ""
		})
		if len(missing) == 0 || t.Context().Err() != nil {
			return
		}
		if time.Now().After(end) {
			t.Errorf("promtest: no numbers:\n%s", strings.Join(missing, "\n"))
			return
		}
	}
}
