package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/internal/exampletest"
	"github.com/interlock-go/interlock/internal/loopback"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// The operator finds what is parked, and resumes it.
func TestTheOperatorResumesWhatIsParked(t *testing.T) {
	ports, err := loopback.New()
	require.NoError(t, err)
	defer ports.Close()
	program := exampletest.Start(t, "-listen", ports.Addr(0))
	page := "http://" + ports.Addr(0) + "/interlock/"
	ask := func(r *http.Request, err error) (status int, body []byte) {
		require.NoError(t, err)
		r.SetBasicAuth("ann", "secret")
		answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		if err != nil {
			return 0, nil // it takes a moment to start
		}
		defer answer.Body.Close()
		body, err = io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, body
	}
	parked := func() (m view.Message, ok bool) {
		status, body := ask(http.NewRequest(http.MethodGet, page+"view.json", nil))
		if status == 0 {
			return m, false
		}
		require.Equal(t, http.StatusOK, status, "%s", body)
		var seen view.View
		require.NoError(t, json.Unmarshal(body, &seen))
		i := slices.IndexFunc(seen.Messages, func(m view.Message) bool { return m.State == "parked" })
		if i < 0 {
			return m, false
		}
		return seen.Messages[i], true
	}
	var found view.Message
	exampletest.Until(t, func() (ok bool) { found, ok = parked(); return ok })
	require.Equal(t, "deposit to 8", found.Name)
	require.Contains(t, found.Err, "the account is frozen")

	form := url.Values{"source": {"deposits"}, "action": {view.Resume}, "target": {found.Target}, "why": {"it is open again"}}
	r, err := http.NewRequest(http.MethodPost, page+"act", strings.NewReader(form.Encode()))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	status, body := ask(r, nil)
	require.Equal(t, http.StatusOK, status, "%s", body)
	exampletest.Until(t, func() bool { m, ok := parked(); return ok && m.ID > found.ID }) // the next one

	status, body = ask(http.NewRequest(http.MethodGet, "http://"+ports.Addr(0)+"/metrics", nil))
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, string(body), `interlock_parked_messages{interlock_name="deposits"} 1`+"\n")
	require.Contains(t, string(body), `messaging_process_duration_seconds_count{`)
	program.Interrupt()
	require.Equal(t, "<nil> <nil>\n", program.Wait())
}
