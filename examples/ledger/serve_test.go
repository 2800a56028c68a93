package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// serving is the program while it takes messages over HTTP.
type serving struct {
	url    string
	stdout strings.Builder
	cancel context.CancelFunc
	code   chan int
}

var address = regexp.MustCompile(`http://[0-9.]+:[0-9]+`)

func serve(t *testing.T, args ...string) *serving {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &serving{cancel: cancel, code: make(chan int, 1)}
	read, stderr := io.Pipe()
	set := checked(t)
	go func() {
		code := run(ctx, append(args, "-listen", "127.0.0.1:0"), strings.NewReader(""), &s.stdout, stderr, set)
		stderr.Close()
		s.code <- code
	}()
	lines := bufio.NewReader(read)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	go io.Copy(io.Discard, lines)
	s.url = address.FindString(line)
	require.NotEmpty(t, s.url, line)
	return s
}

// stop ends the program as a signal would.
func (s *serving) stop() (code int, summary string) {
	s.cancel()
	code = <-s.code
	return code, s.stdout.String()
}

func post(t *testing.T, client *http.Client, url, body string) (code int, answer string) {
	t.Helper()
	response, err := client.Post(url+"/messages", "application/json", strings.NewReader(body))
	if !assert.NoError(t, err) {
		return 0, ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	assert.NoError(t, err)
	return response.StatusCode, strings.TrimSpace(string(text))
}

func TestServe(t *testing.T) {
	t.Parallel()
	s := serve(t)
	client := &http.Client{}
	long := strings.Repeat("x", 512)
	for _, step := range []struct {
		message string
		code    int
		answer  string
	}{
		{`{"op":"open","account":"` + long + `"}`, 200, `{"status":"applied"}`},
		{`{"op":"open","account":"client:1:a"}`, 200, `{"status":"applied"}`},
		{`{"op":"deposit","account":"client:1:a","amount":"10.00","commodity":"EUR"}`, 200, `{"status":"applied"}`},
		{`{"op":"withdraw","account":"client:1:a","amount":"10.01","commodity":"EUR"}`, 409,
			`{"status":"rejected","reason":"no cover","error":"no cover: client:1:a has 10.00 EUR, of which withdraw cannot take 10.01 EUR"}`},
		{`{"op":"buying_power","client":"client:1"}`, 200, `{"status":"applied","totals":[{"amount":"10.00","commodity":"EUR"}]}`},
		{`{"op":"open"}`, 400, `{"status":"malformed","error":"open needs \"account\""}`},
	} {
		code, answer := post(t, client, s.url, step.message)
		assert.Equal(t, step.code, code, step.message)
		assert.JSONEq(t, step.answer, answer, step.message)
	}
	var senders sync.WaitGroup
	for range 20 {
		senders.Go(func() {
			code, answer := post(t, client, s.url, `{"op":"deposit","account":"client:1:a","amount":"0.01","commodity":"EUR"}`)
			assert.Equal(t, 200, code, answer)
		})
	}
	senders.Wait()
	_, answer := post(t, client, s.url, `{"op":"end_of_day"}`)
	assert.JSONEq(t, `{"status":"applied","totals":[{"amount":"10.20","commodity":"EUR"}]}`, answer)
	client.CloseIdleConnections()

	code, summary := s.stop()
	assert.Equal(t, exitGood, code, summary)
	assert.Contains(t, summary, "26: 25 applied, 1 rejected")
	assert.Contains(t, summary, "✓ money conserved in 1 commodity, at 1 end of day and at the end")
}

// Senders that number their messages may send them again, and in any order.
func TestServeNumberedMessages(t *testing.T) {
	t.Parallel()
	s := serve(t, "-db", "memory", "-gap", "10ms")
	client := &http.Client{}
	numbered := func(number string) string {
		return `{"op":"post","sequence":"A=` + number + `","postings":[{"account":"A","amount":"1"}]}`
	}
	for _, step := range []struct {
		message string
		code    int
		answer  string
	}{
		{numbered("1"), 200, `{"status":"applied"}`},
		{numbered("1"), 200, `{"status":"done before"}`},
		{strings.Replace(numbered("1"), `"amount":"1"`, `"amount":"2"`, 1), 409, ""},
		{`{"op":"buying_power","client":"A","sequence":"B=1"}`, 200, `{"status":"applied","totals":[{"amount":"1"}]}`},
		{`{"op":"buying_power","client":"A","sequence":"B=1"}`, 200, `{"status":"done before","totals":[{"amount":"1"}]}`},
		{`{"op":"open","account":"A","sequence":"B=2"}`, 409, `{"status":"rejected","reason":"account exists","error":"account exists: A"}`},
		{`{"op":"open","account":"A","sequence":"B=2"}`, 409, `{"status":"rejected","reason":"account exists","error":"account exists: A"}`},
		{numbered("3"), 202, `{"status":"held"}`},
		{numbered("2"), 202, `{"status":"held"}`}, // until the store has let go of the stream
	} {
		code, answer := post(t, client, s.url, step.message)
		assert.Equal(t, step.code, code, step.message)
		if step.answer == "" { // it has the numbers of another one
			assert.Contains(t, answer, `"reason":"numbers"`)
			continue
		}
		assert.JSONEq(t, step.answer, answer, step.message)
	}
	client.CloseIdleConnections()
	code, summary := s.stop()
	assert.Equal(t, exitBad, code, summary)
	assert.Contains(t, summary, "9: 3 done before, 4 applied, 1 rejected")
	assert.Equal(t, 1, strings.Count(summary, "✗"), summary)
	assert.Contains(t, summary, "✗ numbers that contradict each other: 1 message")
}

// Without a host -listen means this machine.
func TestListensToThisMachineOnly(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		":0":          `^serving at http://127\.0\.0\.1:`,
		"localhost:0": `^serving at http://(127\.0\.0\.1|\[::1\]):`,
		"0.0.0.0:0":   `^warning: whoever reaches [^ ]+ can send messages: there is no authentication without -token\nserving`,
	} {
		w := begin(t, "-listen", address, "-db", "memory")
		w.requireSays(t, "serving at")
		assert.Regexp(t, want, w.stderr.String())
		code, summary := w.end(t)
		assert.Equal(t, exitGood, code, summary)
	}
	w := begin(t, "-listen", "0.0.0.0:0", "-db", "memory", "-token", write(t, "token", "a secret\n"))
	w.requireSays(t, "^serving at")
	code, _ := w.end(t)
	assert.Equal(t, exitGood, code)
}

// A request that is under way when the end comes is answered: its body follows
// only after the program was told to stop.
func TestServeEndsGracefully(t *testing.T) {
	t.Parallel()
	s := serve(t, "-db", "memory")
	body, send := io.Pipe()
	underWay := make(chan struct{})
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{Got100Continue: func() { close(underWay) }})
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/messages", body)
	require.NoError(t, err)
	request.Header.Set("Expect", "100-continue")
	go func() {
		<-underWay // the handler reads the body
		s.cancel()
		io.WriteString(send, `{"op":"open","account":"a"}`)
		send.Close()
	}()
	transport := &http.Transport{ExpectContinueTimeout: time.Minute}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	require.NoError(t, err)
	defer response.Body.Close()
	assert.Equal(t, http.StatusOK, response.StatusCode)
	code, summary := s.stop()
	assert.Equal(t, exitGood, code, summary)
	assert.Contains(t, summary, "1: 1 applied")
}

// SIGTERM, as service managers send it, is a good end.
func TestSIGTERM(t *testing.T) {
	t.Parallel()
	command := process(t, "-listen", "127.0.0.1:0")
	stderr, err := command.StderrPipe()
	require.NoError(t, err)
	var stdout strings.Builder
	command.Stdout = &stdout
	require.NoError(t, command.Start())
	line, err := bufio.NewReader(stderr).ReadString('\n')
	require.NoError(t, err)
	client := &http.Client{}
	code, answer := post(t, client, address.FindString(line), `{"op":"open","account":"a"}`)
	client.CloseIdleConnections()
	assert.Equal(t, http.StatusOK, code, answer)
	require.NoError(t, command.Process.Signal(syscall.SIGTERM))
	require.NoError(t, command.Wait())
	assert.Contains(t, stdout.String(), "1: 1 applied")
}

// Who does not want to wait for the good end sends a second signal.
func TestASecondSignalEndsTheProgramAtOnce(t *testing.T) {
	t.Parallel()
	command := process(t, "-listen", "127.0.0.1:0")
	stderr, err := command.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	line, err := bufio.NewReader(stderr).ReadString('\n')
	require.NoError(t, err)
	slow, err := net.Dial("tcp", strings.TrimPrefix(address.FindString(line), "http://"))
	require.NoError(t, err)
	defer slow.Close()
	_, err = io.WriteString(slow, "POST /messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n")
	require.NoError(t, err)
	answer, err := bufio.NewReader(slow).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, answer, "100 Continue", "it waits for the rest")

	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	require.Eventually(t, func() bool {
		_ = command.Process.Signal(syscall.SIGTERM) // it may have ended
		return len(ended) > 0
	}, hangs, 10*time.Millisecond)
	require.ErrorContains(t, <-ended, "signal: terminated")
}

// The page shows what waits, and why, to who may see it.
func TestServePage(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("secret\n"), 0o600))
	for name, args := range map[string][]string{"open": nil, "with a token": {"-token", token}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, append(args, "-gap", "10ms")...)
			client := &http.Client{}
			defer client.CloseIdleConnections()
			ask := func(method, path, body, user string) (code int, answer string) {
				r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
				require.NoError(t, err)
				if user != "" {
					r.SetBasicAuth(user, "secret")
				} else {
					r.Header.Set("Authorization", "Bearer secret")
				}
				if strings.HasPrefix(path, "/interlock/act") {
					r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				}
				response, err := client.Do(r)
				require.NoError(t, err)
				defer response.Body.Close()
				text, err := io.ReadAll(response.Body)
				require.NoError(t, err)
				return response.StatusCode, string(text)
			}
			code, answer := ask("POST", "/messages", `{"op":"post","sequence":"A=2","postings":[{"account":"A","amount":"1"}]}`, "")
			require.Equal(t, 202, code, answer)
			target := regexp.MustCompile(`A=1 @[0-9a-zA-Z-]+`) // the number that is missing, and which parking of it
			var parking string
			require.Eventually(t, func() bool {
				code, page := ask("GET", "/interlock/", "", "ann")
				parking = target.FindString(page)
				return code == 200 && strings.Contains(page, "1 parkings: an operator must decide") && parking != ""
			}, hangs, 10*time.Millisecond)
			if args != nil {
				code, _ = ask("GET", "/interlock/", "", "")
				require.Equal(t, 401, code)
			}
			code, answer = ask("POST", "/interlock/act", "source=ledger&action=skip&target="+url.QueryEscape(parking)+"&why=the+sender+has+lost+it", "ann")
			require.Equal(t, 200, code, answer)
			if args != nil {
				require.Contains(t, answer, `"who": "ann"`)
			}
			require.Eventually(t, func() bool {
				code, page := ask("GET", "/interlock/?tab=timeline", "", "ann")
				return code == 200 && strings.Contains(page, "post A=2")
			}, hangs, 10*time.Millisecond, "what was held behind the lost one has run")
			client.CloseIdleConnections()
			s.stop()
		})
	}
}
