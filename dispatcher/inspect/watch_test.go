package inspect_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/health"
	"github.com/interlock-go/interlock/dispatcher/inspect"
	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/lockkeys"
)

// fake is a source that says what a test wants.
type fake struct {
	view func(q view.Query) (view.View, error)
}

func (f fake) View(_ context.Context, q view.Query) (view.View, error) { return f.view(q) }

// ask serves a request without a server.
func ask(t *testing.T, page http.Handler, path string, into any) (status int, body string) {
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	if into != nil {
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), into), w.Body.String())
	}
	return w.Code, w.Body.String()
}

// A handler that does not return is told apart from one that is at work: something waits,
// and nothing has begun or ended for half a minute.
func TestStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		d, err := dispatcher.New(dispatcher.Config[job]{
			Keys:    func(j job, c *lockkeys.Claim) error { c.Exclusive(lockkeys.MustParse(j.key)); return nil },
			Handler: func(ctx context.Context, j job) error { return j.run(ctx) }, Name: func(j job) string { return j.name },
		})
		require.NoError(t, err)
		page, err := inspect.New(inspect.Config{Sources: []inspect.Named{{Name: "transfers", Source: d}}, Logger: discard})
		require.NoError(t, err)
		how := func() (int, health.Health) {
			all := map[string]health.Health{}
			status, _ := ask(t, page, "/health.json", &all)
			return status, all["transfers"]
		}
		submit := func(name, key string, run func(context.Context) error) {
			require.NoError(t, d.Submit(t.Context(), job{name, key, run}))
			time.Sleep(2 * time.Second)
		}
		submit("end of day", "bank", func(context.Context) error { <-end; return nil })
		time.Sleep(10 * time.Minute)
		status, h := how()
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, health.Health{State: health.Healthy}, h, "nobody waits for it")

		submit("deposit 7", "bank/account/7", func(context.Context) error { return nil })
		time.Sleep(27 * time.Second)
		_, h = how()
		require.Equal(t, health.Healthy, h.State)
		time.Sleep(3 * time.Second)
		status, h = how()
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Equal(t, health.Stalled, h.State)
		require.Regexp(t, `^1 wait, and nothing has begun or ended for 3[0-2] s; end of day, running since 10 min, is the oldest that holds its keys$`, h.Reasons[0])

		var seen inspect.Seen
		ask(t, page, "/view.json", &seen)
		require.Len(t, seen.Hot, 1)
		require.Equal(t, "bank", seen.Hot[0].Key.String())
		require.Equal(t, 1, seen.Hot[0].Queue)
		require.InDelta(t, 32, seen.Hot[0].Oldest.Seconds(), 1)

		close(end)
		time.Sleep(2 * time.Second)
		_, h = how()
		require.Equal(t, health.Healthy, h.State)
		require.NoError(t, d.Close())
		time.Sleep(2 * time.Second)
		status, h = how()
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Equal(t, health.Stopped, h.State)
		require.NoError(t, page.Close())
	})
}

// A source that cannot be looked at is unknown, and the others are shown all the same.
func TestUnknown(t *testing.T) {
	good := fake{func(view.Query) (view.View, error) { return view.View{Kind: "fake"}, nil }}
	away := fake{func(view.Query) (view.View, error) { return view.View{}, errors.New("the database is away") }}
	broken := fake{func(view.Query) (view.View, error) { panic("no") }}
	page, err := inspect.New(inspect.Config{Sources: []inspect.Named{{Name: "good", Source: good}, {Name: "away", Source: away}, {Name: "broken", Source: broken}}})
	require.NoError(t, err)
	defer page.Close()
	all := map[string]health.Health{}
	status, _ := ask(t, page, "/health.json", &all)
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Equal(t, health.Healthy, all["good"].State)
	assert.Equal(t, health.Health{State: health.Unknown, Reasons: []string{"the database is away"}}, all["away"])
	assert.Equal(t, health.Unknown, all["broken"].State)
	assert.Contains(t, all["broken"].Reasons[0], "panicked: no")
	for _, source := range []string{"good", "away", "broken"} {
		status, body := ask(t, page, "/?source="+source, nil)
		assert.Equal(t, http.StatusOK, status)
		assert.Contains(t, body, "the database is away"[:3])
	}
}

// All who ask within a quarter of a second share what was seen.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		source := fake{func(view.Query) (view.View, error) { looks++; return view.View{Kind: "fake"}, nil }}
		page, err := inspect.New(inspect.Config{Sources: []inspect.Named{{Name: "a", Source: source}}})
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 1, looks)
		for range 10 {
			for range 100 {
				ask(t, page, "/view.json", nil)
			}
			time.Sleep(100 * time.Millisecond)
		}
		require.LessOrEqual(t, looks, 5)

		t.Log("whatever is searched for, what is kept is bounded")
		for i := range 1000 {
			ask(t, page, fmt.Sprint("/view.json?q=", i), nil)
		}
		require.NoError(t, page.Close())
	})
}

func TestStream(t *testing.T) {
	b := newBank(t, false, func(c *inspect.Config) { c.MaxViewers = 1 })
	r, err := b.server.Client().Get(b.server.URL + "/ops/interlock/stream")
	require.NoError(t, err)
	defer r.Body.Close()
	require.Equal(t, "text/event-stream", r.Header.Get("Content-Type"))
	lines := bufio.NewScanner(r.Body)
	lines.Buffer(nil, 1<<20)
	next := func(text string) {
		for lines.Scan() {
			line, data := strings.CutPrefix(lines.Text(), "data: ")
			if !data {
				continue
			}
			var html string
			require.NoError(t, json.Unmarshal([]byte(line), &html))
			if strings.Contains(html, text) {
				return
			}
		}
		require.Fail(t, "the stream has ended", "before %q", text)
	}
	next("Nothing needs an operator.")
	b.story(t)
	next("there is no account &lt;b&gt;7&lt;/b&gt;")

	status, body := b.get(t, "/ops/interlock/stream")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "reload by hand")
}

// A recorder keeps the last messages, whatever they do.
func TestRecorder(t *testing.T) {
	r := inspect.NewRecorder[int](2, func(i int) string { return fmt.Sprint("m", i) })
	at := time.Unix(0, 0)
	event := func(kind dispatcher.EventKind, id uint64, err error) {
		at = at.Add(time.Second)
		r.Observe(dispatcher.Event[int]{Kind: kind, Time: at, ID: id, Message: int(id), Worker: 3, Err: err,
			Claim: []lockkeys.Request{{Key: lockkeys.Must("a")}}})
	}
	event(dispatcher.Queued, 1, nil)
	event(dispatcher.Queued, 2, nil)
	event(dispatcher.Queued, 3, nil)
	event(dispatcher.Blocked, 3, nil)
	event(dispatcher.Started, 3, nil)
	event(dispatcher.Retried, 3, errors.New("no"))
	event(dispatcher.Started, 3, nil)
	event(dispatcher.Finished, 3, nil)
	list := r.Lately(5)
	require.Len(t, list, 2)
	require.Equal(t, "m3", list[0].Name)
	require.True(t, list[0].Ended)
	require.Equal(t, "no", list[0].Err)
	states := []string{}
	for _, p := range list[0].Parts {
		states = append(states, p.State)
		require.Equal(t, time.Second, p.To.Sub(p.From))
	}
	require.Equal(t, []string{"queued", "waiting", "running", "backoff", "running"}, states)
	require.Equal(t, "m2", list[1].Name)
	require.Len(t, r.Lately(1), 1)
	event(dispatcher.Started, 2, nil)
	event(dispatcher.Widened, 2, nil)
	require.Equal(t, inspect.Part{State: "ready", From: at, Worker: -1}, r.Lately(1)[0].Parts[2], "no worker has it")
	for range 1000 {
		event(dispatcher.Started, 2, nil)
		event(dispatcher.Retried, 2, nil)
	}
	require.LessOrEqual(t, len(r.Lately(1)[0].Parts), 32)
}

// A source that does not answer is unknown after a while, and no other waits for it.
func TestDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good := fake{func(view.Query) (view.View, error) { return view.View{Kind: "fake"}, nil }}
		page, err := inspect.New(inspect.Config{Sources: []inspect.Named{{Name: "good", Source: good}, {Name: "hangs", Source: hangs{}}}})
		require.NoError(t, err)
		time.Sleep(time.Second / 2)
		begun := time.Now()
		all := map[string]health.Health{}
		ask(t, page, "/health.json", &all)
		require.LessOrEqual(t, time.Since(begun), 5*time.Second)
		require.Equal(t, health.Healthy, all["good"].State)
		require.Equal(t, health.Health{State: health.Unknown, Reasons: []string{"context deadline exceeded"}}, all["hangs"])
		require.NoError(t, page.Close())
	})
}

// hangs is a source whose database does not answer.
type hangs struct{}

func (hangs) View(ctx context.Context, _ view.Query) (view.View, error) {
	<-ctx.Done()
	return view.View{}, ctx.Err()
}

// A long queue on one key is explained in time that is linear in it.
func TestLongQueue(t *testing.T) {
	const n = 5000
	list := make([]view.Message, n)
	for i := range list {
		list[i] = view.Message{ID: uint64(i + 1), Name: "deposit", State: "waiting", Blocker: uint64(i), Blocks: view.Request{Key: lockkeys.Must("a")},
			Claim: []view.Request{{Key: lockkeys.Must("a")}}}
	}
	list[0].State = "running"
	queue := fake{func(view.Query) (view.View, error) {
		return view.View{Messages: append([]view.Message(nil), list...)}, nil
	}}
	page, err := inspect.New(inspect.Config{Sources: []inspect.Named{{Name: "a", Source: queue}}})
	require.NoError(t, err)
	defer page.Close()
	var sentences []struct{ Why string }
	ask(t, page, "/why.json?q=deposit", &sentences)
	require.Len(t, sentences, 100)
	require.Regexp(t, `^deposit \(running( for \d+ m?s)?\) holds a; behind it are 4999\.$`, sentences[0].Why)
	for _, tab := range []string{"overview", "keys", "blocked", "hot"} {
		status, body := ask(t, page, "/?q=deposit&tab="+tab, nil)
		require.Equal(t, http.StatusOK, status)
		require.Less(t, len(body), 4<<20)
	}
}

// An operator who closes the page after a click has acted all the same, and is listed.
func TestOperatorGoesAway(t *testing.T) {
	acts := make(chan error, 1)
	slow := operated{act: func(ctx context.Context) error {
		acts <- ctx.Err()
		return ctx.Err()
	}}
	page, err := inspect.New(inspect.Config{Sources: []inspect.Named{{Name: "a", Source: slow}}, Logger: discard,
		Authorize: func(*http.Request, string, view.Action) (string, error) { return "Ann", nil }})
	require.NoError(t, err)
	defer page.Close()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(gone, http.MethodPost, "/act", strings.NewReader("source=a&action=skip&target=x&why=because"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	page.ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	require.NoError(t, <-acts)
	var deeds []inspect.Deed
	ask(t, page, "/audit.json", &deeds)
	require.Len(t, deeds, 1)
	require.Empty(t, deeds[0].Err)
}

type operated struct{ act func(context.Context) error }

func (operated) View(context.Context, view.Query) (view.View, error) { return view.View{}, nil }
func (o operated) Act(ctx context.Context, _ view.Action) error      { return o.act(ctx) }
