package inspect_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/health"
	"github.com/interlock-go/interlock/dispatcher/inspect"
	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/lockkeys"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// waitAtMost is for conditions: a test that waits for longer counts as hanging.
const waitAtMost = 2 * time.Minute

var discard = slog.New(slog.DiscardHandler)

// job is a message of the tests.
type job struct {
	name string
	key  string
	run  func(context.Context) error
}

// bank is a dispatcher with a page.
type bank struct {
	*dispatcher.Dispatcher[job]
	recorder *inspect.Recorder[job]
	server   *httptest.Server
}

// newBank has an operator, Ann, if mayAct.
func newBank(t *testing.T, mayAct bool, change ...func(*inspect.Config)) *bank {
	name := func(j job) string { return j.name }
	b := &bank{recorder: inspect.NewRecorder(0, name)}
	var err error
	b.Dispatcher, err = dispatcher.New(dispatcher.Config[job]{
		Keys:    func(j job, c *lockkeys.Claim) error { c.Exclusive(lockkeys.MustParse(j.key)); return nil },
		Handler: func(ctx context.Context, j job) error { return j.run(ctx) },
		Name:    name, Workers: 4, Failure: dispatcher.Park, Observer: b.recorder.Observe, Logger: discard,
		MaxAttempts: 3, Backoff: dispatcher.Backoff{Initial: time.Hour, Max: time.Hour},
	})
	require.NoError(t, err)
	config := inspect.Config{Sources: []inspect.Named{{Name: "transfers", Source: b.Dispatcher, Timeline: b.recorder}}, Logger: discard}
	if mayAct {
		config.Authorize = func(*http.Request, string, view.Action) (string, error) { return "Ann", nil }
	}
	for _, c := range change {
		c(&config)
	}
	page, err := inspect.New(config)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/ops/interlock/", http.StripPrefix("/ops/interlock", page))
	mux.Handle("/ops/interlock", http.StripPrefix("/ops/interlock", page))
	b.server = httptest.NewServer(mux)
	t.Cleanup(func() {
		assert.NoError(t, page.Close())
		b.server.CloseClientConnections()
		b.server.Close()
		b.server.Client().CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 0)
		defer cancel()
		_, _ = b.Shutdown(ctx) // some never end
	})
	return b
}

func (b *bank) submit(t *testing.T, name, key string, run func(context.Context) error) {
	require.NoError(t, b.Submit(t.Context(), job{name, key, run}))
}

// story is a bank in trouble: a transfer is tried again in an hour, a deposit waits for it,
// and a payment of another client is parked with one behind it.
func (b *bank) story(t *testing.T) {
	nothing := func(context.Context) error { return nil }
	b.submit(t, "transfer 812", "client/42/account/7", func(context.Context) error { return errors.New("timeout of the gateway") })
	b.submit(t, "deposit 813", "client/42/account/7", nothing)
	b.submit(t, "payment 900", "client/1", func(context.Context) error {
		return dispatcher.Permanent(errors.New("there is no account <b>7</b>"))
	})
	b.submit(t, "payment 901", "client/1", nothing)
	require.Eventually(t, func() bool {
		s := b.Stats()
		return s.Parked == 1 && s.Backoff == 1 && s.Waiting == 1 && s.Behind == 1
	}, waitAtMost, time.Millisecond)
	require.Eventually(t, func() bool {
		var seen inspect.Seen
		b.getJSON(t, "/ops/interlock/view.json", &seen)
		return len(seen.Messages) == 4 && seen.Health.State == health.Attention
	}, waitAtMost, 10*time.Millisecond, "what was seen a moment ago counts for a moment")
}

func (b *bank) get(t *testing.T, path string) (status int, body string) {
	r, err := b.server.Client().Get(b.server.URL + path)
	require.NoError(t, err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return r.StatusCode, string(text)
}

func (b *bank) getJSON(t *testing.T, path string, into any) {
	status, body := b.get(t, path)
	require.Equal(t, http.StatusOK, status, body)
	require.NoError(t, json.Unmarshal([]byte(body), into))
}

func (b *bank) act(t *testing.T, form url.Values, header ...string) (status int, body string) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.server.URL+"/ops/interlock/act", strings.NewReader(form.Encode()))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	client := *b.server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := client.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	if to := answer.Header.Get("Location"); to != "" {
		return answer.StatusCode, to
	}
	return answer.StatusCode, string(text)
}

func TestPages(t *testing.T) {
	b := newBank(t, true)
	b.story(t)
	for tab, has := range map[string][]string{
		"overview": {"attention", "1 parked", "payment 900", "there is no account &lt;b&gt;7&lt;/b&gt;", "deposit 813 has waited", "for transfer 812 (attempt 2 of 3 in", "which holds client/42/account/7", "The last error of transfer 812: timeout of the gateway", `value="drop"`},
		"keys":     {"client", "42", "transfer 812", "deposit 813"},
		"blocked":  {"<svg", "payment 901", "transfer 812"},
		"hot":      {"Hot keys", "client/42/account/7"},
		"parked":   {"payment 900", "1 wait behind it"},
		"timeline": {"<svg", "worker", "transfer 812"},
		"audit":    {"Nobody has acted"},
	} {
		t.Run(tab, func(t *testing.T) {
			status, body := b.get(t, "/ops/interlock/?tab="+tab)
			require.Equal(t, http.StatusOK, status)
			for _, text := range has {
				assert.Contains(t, body, text)
			}
			assert.NotContains(t, body, "<b>7</b>", "nothing of a message is markup")
			assert.NotContains(t, body, "ZgotmplZ")
			assert.NotContains(t, body, "http://")
			assert.NotContains(t, body, `href="/`, "links are relative")
		})
	}

	t.Log("what is not there")
	for _, path := range []string{"?tab=x", "?source=x", "view.json?source=x", "stream?tab=x", "nothing"} {
		status, body := b.get(t, "/ops/interlock/"+path)
		assert.Equal(t, http.StatusNotFound, status, path)
		assert.NotEmpty(t, body)
	}
	status, body := b.get(t, "/ops/interlock/view.json?q=a//b")
	assert.Equal(t, http.StatusBadRequest, status)
	assert.Contains(t, body, "neither the ID of a message")

	t.Log("without the slash")
	status, body = b.get(t, "/ops/interlock")
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, body, "payment 900")
}

func TestSearch(t *testing.T) {
	b := newBank(t, false)
	b.story(t)
	for search, wanted := range map[string][]string{
		"":                         {"transfer 812", "deposit 813", "payment 900", "payment 901"},
		"%232":                     {"transfer 812", "deposit 813"}, // with what it waits for
		"2":                        {"transfer 812", "deposit 813"},
		"PAYMENT":                  {"payment 900", "payment 901"},
		"client/42":                {"transfer 812", "deposit 813"},
		"client/":                  {"transfer 812", "deposit 813", "payment 900", "payment 901"},
		"client/42/account/7/fees": {"transfer 812", "deposit 813"},
		"client/43":                {},
		"nobody":                   {},
	} {
		t.Run(search, func(t *testing.T) {
			var seen inspect.Seen
			b.getJSON(t, "/ops/interlock/view.json?q="+search, &seen)
			names := []string{}
			for _, m := range seen.Messages {
				names = append(names, m.Name)
			}
			assert.Equal(t, wanted, names)
		})
	}

	var sentences []struct{ Why string }
	b.getJSON(t, "/ops/interlock/why.json?q=901", &sentences)
	require.Empty(t, sentences, "an ID that is not there")
	b.getJSON(t, "/ops/interlock/why.json?q=payment+901", &sentences)
	require.Len(t, sentences, 1)
	assert.Regexp(t, `^payment 901 has waited \d+ m?s for payment 900 \(parked for \d+ m?s\), which holds client/1\.`, sentences[0].Why)
	b.getJSON(t, "/ops/interlock/why.json?q=4", &sentences)
	require.Len(t, sentences, 2)
	assert.Regexp(t, `^payment 900 \(parked for \d+ m?s\) holds client/1; behind it is 1\. The last error of payment 900: there is no account <b>7</b>$`, sentences[0].Why)
	assert.Regexp(t, `^payment 901 has waited \d+ m?s for payment 900 \(parked for \d+ m?s\), which holds client/1\. The last error of payment 900: .*`, sentences[1].Why)
}

func TestActions(t *testing.T) {
	b := newBank(t, true)
	b.story(t)
	var seen inspect.Seen
	b.getJSON(t, "/ops/interlock/view.json?q=%233", &seen)
	target := seen.Messages[0].Target
	parts := strings.Split(target, "/") // when the dispatcher was made, ID, attempts
	require.Len(t, parts, 3)
	of := func(id string) string { return parts[0] + "/" + id + "/" + parts[2] }
	skip := url.Values{"source": {"transfers"}, "action": {"skip"}, "target": {target}, "why": {"the client has closed the account"}}
	with := func(name, value string) url.Values {
		form := url.Values{}
		for k, v := range skip {
			form[k] = v
		}
		form.Set(name, value)
		return form
	}
	for name, test := range map[string]struct {
		form   url.Values
		header []string
		status int
		says   string
	}{
		"from another site":    {skip, []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden, "cross-origin"},
		"another source":       {with("source", "x"), nil, http.StatusNotFound, "no such source"},
		"another action":       {with("action", "burn"), nil, http.StatusBadRequest, "use resume, skip or drop"},
		"no attempts":          {with("target", parts[0]+"/3/-1"), nil, http.StatusBadRequest, "is no message"},
		"no ID":                {with("target", "client"), nil, http.StatusBadRequest, "is no message"},
		"one that is not":      {with("target", of("77")), nil, http.StatusConflict, "no parked message"},
		"one that waits":       {with("target", of("1")), nil, http.StatusConflict, "no parked message"},
		"without a reason":     {with("why", " "), nil, http.StatusBadRequest, "say why"},
		"too much":             {with("why", strings.Repeat("x", 20<<10)), nil, http.StatusBadRequest, "too large"},
		"shown to whom it was": {func() url.Values { f := with("target", of("77")); f.Set("back", "tab=parked"); return f }(), nil, http.StatusConflict, "<h1>It could not be done"},
	} {
		t.Run(name, func(t *testing.T) {
			status, body := b.act(t, test.form, test.header...)
			assert.Equal(t, test.status, status)
			assert.Contains(t, body, test.says)
			assert.Equal(t, 1, b.Stats().Parked)
		})
	}
	status, _ := b.get(t, "/ops/interlock/act")
	assert.Equal(t, http.StatusMethodNotAllowed, status)

	status, to := b.act(t, with("back", "source=transfers&tab=parked&q="))
	require.Equal(t, http.StatusSeeOther, status)
	require.Equal(t, "./?q=&source=transfers&tab=parked", to)
	require.Eventually(t, func() bool { return b.Stats().Succeeded == 1 }, waitAtMost, time.Millisecond, "the one behind it")

	var deeds []inspect.Deed
	b.getJSON(t, "/ops/interlock/audit.json", &deeds)
	require.NotEmpty(t, deeds)
	assert.Equal(t, "Ann", deeds[0].Who)
	assert.Equal(t, view.Action{Name: "skip", Target: target}, deeds[0].Action)
	assert.Equal(t, "the client has closed the account", deeds[0].Why)
	assert.Empty(t, deeds[0].Err)
	assert.NotEmpty(t, deeds[1].Err, "those that failed are listed too")
	_, body := b.get(t, "/ops/interlock/?tab=audit")
	assert.Contains(t, body, "the client has closed the account")
}

// Without Authorize nobody acts, and no button is shown; one who is refused is told why.
func TestReadOnly(t *testing.T) {
	form := url.Values{"source": {"transfers"}, "action": {"skip"}, "target": {"3"}, "why": {"because"}}
	b := newBank(t, false)
	b.story(t)
	_, body := b.get(t, "/ops/interlock/?tab=parked")
	assert.Contains(t, body, "payment 900")
	assert.NotContains(t, body, "<button name")
	status, body := b.act(t, form)
	assert.Equal(t, http.StatusForbidden, status)
	assert.Contains(t, body, "read-only")
	assert.Equal(t, 1, b.Stats().Parked)

	b = newBank(t, true, func(c *inspect.Config) {
		c.Authorize = func(_ *http.Request, source string, a view.Action) (string, error) {
			return "", errors.New("only on weekdays: " + source + " " + a.Name)
		}
	})
	b.story(t)
	status, body = b.act(t, form)
	assert.Equal(t, http.StatusForbidden, status)
	assert.Contains(t, body, "only on weekdays: transfers skip")
	assert.Equal(t, 1, b.Stats().Parked)
	var deeds []inspect.Deed
	b.getJSON(t, "/ops/interlock/audit.json", &deeds)
	assert.Empty(t, deeds)
}

func TestRedact(t *testing.T) {
	b := newBank(t, true, func(c *inspect.Config) {
		c.Redact = func(text string) string {
			return strings.NewReplacer("payment", "***", "no account", "***").Replace(text)
		}
		c.Show = func(_ string, message any) string { return "key " + message.(job).key }
	})
	b.story(t)
	for _, path := range []string{"?tab=overview", "?tab=keys", "?tab=blocked", "?tab=parked", "?tab=timeline", "view.json", "timeline.json", "why.json?q=%233"} {
		_, body := b.get(t, "/ops/interlock/"+path)
		assert.NotContains(t, body, "payment", path)
		assert.NotContains(t, body, "no account", path)
	}
	_, body := b.get(t, "/ops/interlock/?tab=parked")
	assert.Contains(t, body, "key client/1")
}

// Functions of the service that fail are told on the page: they harm neither that nor the
// service, and nothing that they had to change is shown.
func TestShownByFunctionsThatFail(t *testing.T) {
	for name, ends := range map[string]func(){
		"a panic":        func() { panic("it has no name") },
		"runtime.Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t, true, func(c *inspect.Config) {
				c.Redact = func(text string) string {
					if strings.Contains(text, "payment") {
						ends()
					}
					return text
				}
				c.Show = func(string, any) string { ends(); return "" }
			})
			b.story(t)
			for _, path := range []string{"?tab=overview", "?tab=parked", "?tab=timeline", "view.json", "timeline.json"} {
				status, body := b.get(t, "/ops/interlock/"+path)
				assert.Equal(t, http.StatusOK, status, path)
				assert.NotContains(t, body, "payment 9", path)
				assert.Contains(t, body, "(Config.Redact failed)", path)
			}
			_, body := b.get(t, "/ops/interlock/?tab=parked")
			assert.Contains(t, body, "(Config.Show failed)")
		})
	}
}

// Nobody acts without a name.
func TestAuthorizeGivesNoName(t *testing.T) {
	b := newBank(t, false, func(c *inspect.Config) {
		c.Authorize = func(*http.Request, string, view.Action) (string, error) { return "", nil }
	})
	b.story(t)
	var seen inspect.Seen
	b.getJSON(t, "/ops/interlock/view.json", &seen)
	status, body := b.act(t, url.Values{"source": {"transfers"}, "action": {"skip"}, "target": {seen.Messages[2].Target}, "why": {"because"}})
	assert.Equal(t, http.StatusForbidden, status)
	assert.Contains(t, body, "name")
	assert.Len(t, b.Parked(), 1)
}

// broken is a source whose actions fail in other ways than by an error.
type broken struct{ ends func() }

func (broken) View(context.Context, view.Query) (view.View, error) {
	return view.View{Kind: "broken"}, nil
}

func (b broken) Act(context.Context, view.Action) error {
	b.ends()
	return nil
}

// What has become of an action is told to whoever asked for it, and listed, however it
// fails, and as it may be shown.
func TestAnActionThatPanics(t *testing.T) {
	for name, ends := range map[string]func(){
		"a panic":        func() { panic("payment 7 is lost") },
		"runtime.Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t, true, func(c *inspect.Config) {
				c.Redact = func(text string) string { return strings.ReplaceAll(text, "payment 7", "***") }
				c.Sources = append(c.Sources, inspect.Named{Name: "broken", Source: broken{ends}})
			})
			form := url.Values{"source": {"broken"}, "action": {"skip"}, "target": {"7"}, "why": {"because"}}
			status, body := b.act(t, form)
			assert.Equal(t, http.StatusConflict, status)
			assert.NotContains(t, body, "payment 7")
			form.Set("back", "tab=parked")
			status, body = b.act(t, form)
			assert.Equal(t, http.StatusConflict, status)
			assert.Contains(t, body, "It could not be done")
			assert.NotContains(t, body, "payment 7")
			var deeds []inspect.Deed
			b.getJSON(t, "/ops/interlock/audit.json", &deeds)
			require.Len(t, deeds, 2)
			assert.NotEmpty(t, deeds[0].Err)
			assert.NotContains(t, deeds[0].Err, "payment 7")
		})
	}
}

func TestHeaders(t *testing.T) {
	b := newBank(t, false)
	r, err := b.server.Client().Get(b.server.URL + "/ops/interlock/")
	require.NoError(t, err)
	defer r.Body.Close()
	assert.Contains(t, r.Header.Get("Content-Security-Policy"), "default-src 'none'")
	assert.NotContains(t, r.Header.Get("Content-Security-Policy"), "unsafe")
	assert.Equal(t, "no-store", r.Header.Get("Cache-Control"))
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	assert.NotContains(t, string(body), "style=")
	assert.NotContains(t, string(body), "<script>")
	assert.NotContains(t, string(body), "onclick")
}

func TestConfig(t *testing.T) {
	d := newBank(t, false).Dispatcher
	_, err := inspect.New(inspect.Config{})
	assert.ErrorIs(t, err, inspect.ErrConfig)
	_, err = inspect.New(inspect.Config{Limit: -1, StalledAfter: -1, MaxViewers: -1, Sources: []inspect.Named{{"a", d, nil}, {"a", nil, nil}, {"", d, nil}}})
	for _, text := range []string{"Limit", "StalledAfter", "MaxViewers", `Sources[1].Name is "a"`, "Sources[1].Source is nil", "Sources[2].Name is empty"} {
		assert.ErrorContains(t, err, text)
	}
}
