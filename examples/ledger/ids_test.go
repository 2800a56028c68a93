package main

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A message with an id is done once, in whatever input it stands; one that says
// something else by the same id is rejected.
func TestSameID(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "ledger.db")
	post := func(id, account, amount string) string {
		return `{"op":"post","id":"` + id + `","postings":[{"account":"` + account + `","amount":"` + amount + `"}]}` + "\n"
	}
	r := ledger(t, post("x", "A", "1")+post("y", "B", "1")+post("x", "A", "1"), "-in", "-", "-db", db)
	require.Equal(t, exitGood, r.code, r.stdout)
	assert.Contains(t, r.stdout, "3: 1 done before, 2 applied")
	r = ledger(t, post("y", "B", "1")+post("x", "B", "1")+post("z", "B", "1"), "-in", "-", "-db", db)
	require.Equal(t, exitBad, r.code, r.stdout)
	assert.Contains(t, r.stdout, "3: 1 done before, 1 applied, 1 rejected")
	assert.Contains(t, r.stderr, `line 2: rejected: id is taken: "x" is that of a message that says something else`)
	assert.Len(t, journalOf(t, db), 3)
}

// The databases on which requests with a key are tested.
func onEachDatabase(t *testing.T, test func(t *testing.T, db string)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, filepath.Join(t.TempDir(), "ledger.db"))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, server(t).Database(t))
	})
}

// answer is what a request got.
type answer struct {
	code int
	body string
}

// send posts a message with the keys as Idempotency-Key headers.
func send(t *testing.T, url, body string, keys ...string) (a answer) {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, url+"/messages", strings.NewReader(body))
	if !assert.NoError(t, err) {
		return a
	}
	request.Header["Idempotency-Key"] = keys
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if !assert.NoError(t, err) {
		return a
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	assert.NoError(t, err)
	return answer{response.StatusCode, strings.TrimSpace(string(text))}
}

// Messages of the tests below, and what they get.
const (
	deposit  = `{"op":"deposit","account":"c:1","amount":"1.00","commodity":"EUR"}`
	withdraw = `{"op":"withdraw","account":"c:1","amount":"5.00","commodity":"EUR"}`
	total    = `{"op":"buying_power","client":"c"}`
	another  = `{"op":"deposit","account":"c:1","amount":"2.00","commodity":"EUR"}`

	noCover = `{"status":"rejected","reason":"no cover","error":"no cover: c:1 has 1.00 EUR, of which withdraw cannot take 5.00 EUR"}`
	oneEuro = `{"status":"applied","totals":[{"amount":"1.00","commodity":"EUR"}]}`
)

var applied = answer{200, `{"status":"applied"}`}

// taken is the answer to another message with the same id.
func taken(id string) answer {
	return answer{422, fmt.Sprintf(
		`{"status":"rejected","reason":"id is taken","error":"id is taken: \"%s\" is that of a message that says something else, or has other numbers: give this one an id of its own"}`, id)}
}

// withID is a message with an id in its body.
func withID(message, id string) string { return strings.Replace(message, "{", `{"id":"`+id+`",`, 1) }

// A request with a key is done once, and a repeat gets the answer to the first, with the
// key in the header or in the body, also when the program was killed in between, and
// when the sequencer has forgotten the command. What says something else by the same
// key is refused.
func TestAKeyIsDoneOnce(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db string) {
		steps := []struct {
			message string
			keys    []string
			want    answer
		}{
			{`{"op":"open","account":"c:1"}`, []string{"o1"}, applied},
			{deposit, []string{"d1"}, applied},
			{withdraw, []string{"w1"}, answer{409, noCover}},
			{total, []string{"b1"}, answer{200, oneEuro}},
			{another, []string{"d1"}, taken("d1")},
			{withID(deposit, "d1"), nil, applied},
			{withID(deposit, "d1"), []string{"d1"}, applied},
			{deposit, []string{`"d1"`}, applied},
			{withID(another, "d1"), nil, taken("d1")},
			{`{"op":"deposit","id":"d1","account":"c:1","amount":"1.00","commodity":"EUR","sequence":"x=1"}`, nil, taken("d1")},
			{`{ "op": "deposit", "account": "c:1", "amount": "1.00", "commodity": "EUR", "id": "d1" }`, nil, applied},
			{`{"op":"deposit","account":"c:1","amount":"10.00","commodity":"EUR"}`, nil, applied},
			{withdraw, []string{"w1"}, answer{409, noCover}},
			{total, []string{"b1"}, answer{200, oneEuro}},
		}
		for _, prepare := range []func(){func() {}, func() {}, func() { forgetCommands(t, db) }} {
			prepare()
			url, kill := serveProcess(t, "-db", db)
			for _, step := range steps {
				if step.keys == nil && !strings.Contains(step.message, `"id"`) {
					continue // it is not the same each time
				}
				assert.Equal(t, step.want, send(t, url, step.message, step.keys...), "%s %s", step.message, step.keys)
			}
			kill()
		}
		s := serve(t, "-db", db)
		assert.Equal(t, answer{200, oneEuro}, send(t, s.url, total))
		code, summary := s.stop()
		assert.Equal(t, exitGood, code, summary)
	})
}

// serveProcess starts the program as a process that is killed without warning.
func serveProcess(t *testing.T, args ...string) (url string, kill func()) {
	t.Helper()
	command := process(t, append(args, "-listen", "127.0.0.1:0")...)
	stderr, err := command.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	lines := bufio.NewReader(stderr)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	rest := make(chan struct{})
	go func() {
		io.Copy(io.Discard, lines)
		close(rest)
	}()
	return address.FindString(line), func() {
		require.NoError(t, command.Process.Kill())
		<-rest
		require.ErrorContains(t, command.Wait(), "signal: killed")
	}
}

// forgetCommands has the database forget its commands, as after CommandRetention.
func forgetCommands(t *testing.T, db string) {
	t.Helper()
	opened, err := sql.Open(driverOf(db))
	require.NoError(t, err)
	defer opened.Close()
	r, err := opened.ExecContext(context.Background(), `DELETE FROM ordering_commands`)
	require.NoError(t, err)
	n, err := r.RowsAffected()
	require.NoError(t, err)
	require.EqualValues(t, 4, n, "o1, d1, w1, b1")
}

// Of many requests with one key at the same time one is done, and the others get its
// answer if they say the same. Nothing of that is a failure of the program.
func TestAKeyAtTheSameTime(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db string) {
		rejects := filepath.Join(t.TempDir(), "rejects.ndjson")
		s := serve(t, "-db", db, "-latency", "30ms", "-rejects", rejects)
		require.Equal(t, applied, send(t, s.url, `{"op":"open","account":"c:1"}`))
		answers := map[string]chan answer{deposit: make(chan answer, 8), another: make(chan answer, 8)}
		var senders sync.WaitGroup
		for message, got := range answers {
			for range cap(got) {
				senders.Go(func() { got <- send(t, s.url, message, "at once") })
			}
		}
		senders.Wait()
		won := map[string]answer{}
		for message, got := range answers {
			won[message] = <-got
			for range cap(got) - 1 {
				assert.Equal(t, won[message], <-got, "all that say the same get the same")
			}
		}
		sum := `{"status":"applied","totals":[{"amount":"1.00","commodity":"EUR"}]}`
		if won[another] == applied {
			sum = strings.ReplaceAll(sum, "1.00", "2.00")
		}
		assert.ElementsMatch(t, []answer{applied, taken("at once")}, []answer{won[deposit], won[another]})
		assert.Equal(t, answer{200, sum}, send(t, s.url, total))

		code, summary := s.stop()
		assert.Equal(t, exitGood, code, summary)
		assert.Contains(t, summary, "18: 7 done before, 3 applied, 8 rejected")
		assert.Regexp(t, `8  id is taken\n +such as "at once" is that of`, summary)
		assert.NotContains(t, summary, "✗")
		assert.Equal(t, 8, strings.Count(readFile(t, rejects), "\n"))
		assert.Contains(t, readFile(t, rejects), `"verdict":"rejected","reason":"id is taken: \"at once\" is that of`)
	})
}

// An id holds whichever way a message comes: what was read from a file is not done
// again by a request, and the other way round. A request that says something else by
// the id of a message in a file leaves nothing behind that a true copy would
// contradict.
func TestAnIDHoldsWhicheverWayItComes(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db string) {
		open := `{"op":"open","account":"c:1"}`
		r := ledger(t, withID(open, "o1")+"\n"+withID(deposit, "d1")+"\n", "-in", "-", "-db", db)
		require.Equal(t, exitGood, r.code, r.stdout)

		s := serve(t, "-db", db)
		for _, step := range []struct {
			message, key string
			want         answer
		}{
			{another, "d1", taken("d1")},
			{deposit, "d1", applied}, // in the file
			{deposit, "d1", applied},
			{another, "d1", taken("d1")},
			{another, "d2", applied},
		} {
			assert.Equal(t, step.want, send(t, s.url, step.message, step.key), step.message)
		}
		code, summary := s.stop()
		assert.Equal(t, exitGood, code, summary)
		assert.Contains(t, summary, "5: 2 done before, 1 applied, 2 rejected")

		r = ledger(t, withID(another, "d2")+"\n"+withID(total, "b1")+"\n"+withID(deposit, "d2")+"\n", "-in", "-", "-db", db)
		require.Equal(t, exitBad, r.code, r.stdout)
		assert.Contains(t, r.stdout, "3: 1 done before, 1 applied, 1 rejected")
		assert.Contains(t, r.stderr, `line 3: rejected: id is taken: "d2" is that of a message that says something else`)
		s = serve(t, "-db", db)
		assert.Equal(t, answer{200, strings.ReplaceAll(oneEuro, "1.00", "3.00")}, send(t, s.url, total, "b1"), "the answer in the file's run")
		code, summary = s.stop()
		assert.Equal(t, exitGood, code, summary)
	})
}
