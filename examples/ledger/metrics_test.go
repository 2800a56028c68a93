package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/promtest"
)

// What Prometheus and Grafana are given.
const (
	dashboard = "../../dispatcher/telemetry/scrape/dashboard.json"
	alerts    = "../../dispatcher/telemetry/scrape/alerts.yml"
)

// depositing keeps deposits to two accounts coming until ctx ends.
func depositing(ctx context.Context, t *testing.T, url string) (wait func()) {
	client := &http.Client{}
	for _, account := range []string{"client:1:a", "client:2:a"} {
		code, answer := post(t, client, url, `{"op":"open","account":"`+account+`"}`)
		require.Equal(t, http.StatusOK, code, answer)
	}
	var senders sync.WaitGroup
	for i := range 8 {
		senders.Go(func() {
			for ctx.Err() == nil {
				body := fmt.Sprintf(`{"op":"deposit","account":"client:%d:a","amount":"1.00","commodity":"EUR"}`, 1+i%2)
				if code, answer := post(t, client, url, body); !assert.Equal(t, http.StatusOK, code, answer) {
					return
				}
			}
		})
	}
	return func() { senders.Wait(); client.CloseIdleConnections() }
}

// TestDashboard: while the ledger works, each query of the dashboard gives numbers, in
// Prometheus. Those about sagas are tested where there are some.
func TestDashboard(t *testing.T) {
	s := serve(t)
	prometheus := promtest.Start(t, strings.TrimPrefix(s.url, "http://"))
	ctx, cancel := context.WithCancel(t.Context())
	wait := depositing(ctx, t, s.url)
	var queries []string
	for _, panel := range promtest.Panels(t, dashboard) {
		if !strings.HasPrefix(panel.Title, "Sagas: ") {
			queries = append(queries, panel.Queries...)
		}
	}
	prometheus.AwaitNumbers(t, queries)
	for _, rule := range regexp.MustCompile(`expr: >-\n\s+(.*)`).FindAllStringSubmatch(text(t, alerts), -1) {
		values, err := prometheus.Query(ctx, rule[1])
		assert.NoError(t, err, rule[1])
		assert.Empty(t, values, "all is well, and this alerts: %s", rule[1])
	}
	cancel()
	wait()
	code, _ := s.stop()
	assert.Zero(t, code)
}

func text(t *testing.T, path string) string {
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(content)
}

// TestAlerts: Prometheus takes the rules, each is about metrics that there are, and has a
// runbook that there is.
func TestAlerts(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "promtool", "check", "rules", alerts).CombinedOutput()
	require.NoError(t, err, string(out))

	rules := text(t, alerts)
	count := strings.Count(rules, "- alert:")
	require.Positive(t, count)
	sections := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text(t, "../../dispatcher/OPERATING.md"), -1) {
		sections[strings.ReplaceAll(strings.ToLower(heading[1]), " ", "-")] = true
	}
	runbooks := regexp.MustCompile(`runbook: dispatcher/OPERATING\.md#(\S+)`).FindAllStringSubmatch(rules, -1)
	require.Len(t, runbooks, count)
	for _, r := range runbooks {
		assert.True(t, sections[r[1]], "there is no section %s", r[1])
	}

	known := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z._]+)` \\| (\\w+) \\| (\\S+) \\|").FindAllStringSubmatch(text(t, "../../dispatcher/telemetry/METRICS.md"), -1) {
		name := strings.ReplaceAll(row[1], ".", "_")
		name += map[string]string{"s": "_seconds", "By": "_bytes"}[row[3]]
		if row[2] == "counter" {
			name += "_total"
		} else if row[3] == "1" {
			name += "_ratio"
		}
		known[name] = true
	}
	for _, name := range regexp.MustCompile(`\b(?:interlock|messaging)_[a-z_]+\b`).FindAllString(withoutLabels(rules), -1) {
		assert.True(t, known[name], "there is no metric %s", name)
	}
}

// withoutLabels returns the rules without names of labels, and without texts for people.
func withoutLabels(rules string) (exprs string) {
	for _, rule := range regexp.MustCompile(`expr: >-\n\s+(.*)`).FindAllStringSubmatch(rules, -1) {
		exprs += regexp.MustCompile(`\{[^}]*\}|(?:by|on|without) \([^)]*\)`).ReplaceAllString(rule[1], "") + "\n"
	}
	return exprs
}

// TestMetricsNeedTheToken: what is known of the service is not for everybody.
func TestMetricsNeedTheToken(t *testing.T) {
	s := serve(t, "-token", write(t, "token", "secret\n"))
	for token, code := range map[string]int{"secret": http.StatusOK, "other": http.StatusUnauthorized} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/metrics", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		r.Close = true
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		assert.Equal(t, code, answer.StatusCode)
		assert.Equal(t, code == http.StatusOK, strings.Contains(string(body), `interlock_dispatcher_workers{interlock_name="ledger"}`))
	}
	code, _ := s.stop()
	assert.Zero(t, code)
}
