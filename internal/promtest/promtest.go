// Package promtest starts a Prometheus server for tests: a real one, on a free port, with
// its data in a temporary folder.
package promtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/loopback"
)

// waitAtMost is after how long a server that does not become ready counts as broken.
const waitAtMost = time.Minute

// Server is a Prometheus server.
type Server struct{ url string }

// leashed ends the server when its standard input ends, as it does with the test, whatever
// ends that.
const leashed = `"$@" & pid=$!; read -r _; kill "$pid"; wait "$pid"`

// Start starts a server that scrapes targets, such as "127.0.0.1:8080", five times a second
// at /metrics, and ends with the test. It fails the test if Prometheus is not installed.
func Start(t testing.TB, targets ...string) *Server {
	t.Helper()
	s, err := start(t, targets)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func start(t testing.TB, targets []string) (*Server, error) {
	program, err := exec.LookPath("prometheus")
	if err != nil {
		return nil, errors.New("promtest: there is no Prometheus: install it, as Debian's package prometheus for example")
	}
	list, err := json.Marshal(targets)
	if err != nil {
		return nil, err
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	err = os.WriteFile(config, fmt.Appendf(nil, "global: {scrape_interval: 200ms}\nscrape_configs: [{job_name: test, static_configs: [{targets: %s}]}]\n", list), 0o600)
	if err != nil {
		return nil, err
	}
	ports, err := loopback.New()
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = ports.Close() })
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/bin/sh", "-c", leashed, "sh", program,
		"--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+ports.Addr(0))
	cmd.Stdout, cmd.Stderr = log, log
	leash, err := cmd.StdinPipe()
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	t.Cleanup(func() {
		_ = leash.Close()
		_ = cmd.Wait() // it was killed
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("Prometheus:\n%s", text)
		}
		_ = log.Close()
	})
	s := &Server{"http://" + ports.Addr(0)}
	return s, s.ready(t.Context())
}

// ready waits until the server answers.
func (s *Server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, waitAtMost)
	defer cancel()
	for {
		_, err := s.get(ctx, "/-/ready")
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("promtest: the server is not ready: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *Server) get(ctx context.Context, path string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return nil, err
	}
	r.Close = true // no connection stays
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("promtest: %s: %s", answer.Status, body)
	}
	return body, err
}

// Query returns the values of the series that an expression gives at the moment.
func (s *Server) Query(ctx context.Context, expression string) (values []float64, err error) {
	body, err := s.get(ctx, "/api/v1/query?query="+url.QueryEscape(expression))
	if err != nil {
		return nil, err
	}
	var answer struct {
		Data struct {
			Result []struct {
				Value [2]any `json:"value"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("promtest: %w in %s", err, body)
	}
	for _, series := range answer.Data.Result {
		text, _ := series.Value[1].(string)
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("promtest: a value is %v: %w", series.Value[1], err)
		}
		values = append(values, v)
	}
	return values, nil
}
