package httpreplay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/httppool"
	"github.com/interlock-go/interlock/internal/settings"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
)

const (
	// maxErrorBody bounds the bytes read of an error's body.
	maxErrorBody = 64 << 10
	// maxRetryAfter is the longest Retry-After that is respected.
	maxRetryAfter = time.Hour
)

// ClientConfig configures a [Client]. URL is required; the zero value of every
// other field means its default.
type ClientConfig struct {
	// URL is that of the server, without a query.
	URL string
	// Key signs the requests. Default: none, for public servers.
	Key Key
	// HTTP makes the requests: set it for TLS, proxies and connection pools.
	// Its CheckRedirect is not used. Default: one with the settings of
	// [net/http.DefaultTransport], but that up to 64 idle connections are kept,
	// for 90 s.
	HTTP *http.Client
	// Timeout bounds a request with its answer. Default: 10 s.
	Timeout time.Duration
	// MaxBytes bounds the body of an answer. Its events may take twice as much,
	// plus 512 bytes each, by [ordering.Event.Size]. Answers are read event by
	// event, so one uses a few times MaxBytes of memory at most. Default: 16 MiB.
	MaxBytes int64
	// MaxEvents bounds the events of an answer. Default: 8192.
	MaxEvents int
}

func (c ClientConfig) withDefaults() ClientConfig {
	settings.Default(&c.Timeout, 10*time.Second)
	settings.Default(&c.MaxBytes, 16<<20)
	settings.Default(&c.MaxEvents, 8192)
	if c.HTTP == nil {
		c.HTTP = &http.Client{Transport: httppool.New(c.Timeout)}
	}
	return c
}

func (c ClientConfig) validate() error {
	var p settings.Problems
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		p.Add(true, "URL: %w", err)
	default:
		p.Add(u.Scheme != "http" && u.Scheme != "https" || u.Host == "", "URL is %q: give one that begins with https:// or http://", u.Redacted())
		p.Add(u.RawQuery != "" || u.Fragment != "", "URL is %q: it must have no query and no fragment", u.Redacted())
		p.Add(u.User != nil, "URL has a user: sign the requests with Key")
	}
	if c.Key.ID != "" || c.Key.Secret != nil {
		err := c.Key.validate()
		p.Add(err != nil, "Key: %w", err)
	}
	p.Add(c.Timeout < 0, "Timeout is %v: it must not be negative", c.Timeout)
	p.Add(c.MaxBytes < 0, "MaxBytes is %d: it must not be negative", c.MaxBytes)
	p.Add(c.MaxEvents < 0, "MaxEvents is %d: it must not be negative", c.MaxEvents)
	return p.Err(ErrConfig)
}

// Client requests events from a [Server]. It implements [replay.Source] and is
// safe for concurrent use. There is nothing to close.
type Client struct {
	cfg  ClientConfig
	http http.Client
}

var _ replay.Source = (*Client)(nil)

// NewClient returns a client. The error wraps [ErrConfig]. It connects with
// the first request.
func NewClient(cfg ClientConfig) (*Client, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, http: *cfg.HTTP}
	// A signature is only for the configured server.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// Fetch implements [replay.Source] with one request. The error is an [*Error],
// marked by [dispatcher.Permanent] or [replay.RetryAfter] where that applies.
func (c *Client) Fetch(ctx context.Context, asked ordering.Range) (replay.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	address := c.cfg.URL + "?" + query(asked)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return replay.Answer{}, &Error{URL: address, Err: err}
	}
	request.Header.Set("Accept", "application/json")
	if c.cfg.Key.ID != "" {
		request.Header.Set("Authorization", c.cfg.Key.authorization(asked, time.Now()))
	}
	response, err := c.http.Do(request)
	if err != nil {
		if u := (*url.Error)(nil); errors.As(err, &u) {
			err = u.Err // the rest is in Error
		}
		return replay.Answer{}, &Error{URL: address, Err: err}
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return replay.Answer{}, refusal(response, address)
	}
	answer, err := c.read(response)
	if err != nil {
		err = &Error{URL: address, Status: response.StatusCode, Err: err}
		if errors.Is(err, ErrTooLarge) || errors.Is(err, ErrVersion) {
			err = dispatcher.Permanent(err)
		}
	}
	return answer, err
}

// read reads an answer.
func (c *Client) read(response *http.Response) (replay.Answer, error) {
	if err := checkType(response); err != nil {
		return replay.Answer{}, err
	}
	return decodeAnswer(response.Body, c.cfg.MaxEvents, c.cfg.MaxBytes)
}

func checkType(response *http.Response) error {
	header := response.Header.Get("Content-Type")
	if kind, _, err := mime.ParseMediaType(header); err != nil || kind != "application/json" {
		return fmt.Errorf("%w: its type is %.80q: is the URL that of a replay server?", ErrResponse, header)
	}
	return nil
}

// refusal returns the error for a response that is not an answer.
func refusal(response *http.Response, address string) error {
	status := response.StatusCode
	e := &Error{URL: address, Status: status, Err: ErrResponse}
	if text, err := readError(response); err != nil {
		e.Err = err
	} else {
		e.Code = text.Code
		e.Err = cause(text)
	}
	switch {
	case e.Code == codeNotRetained || e.Code == codeNotAssigned:
		return e
	case e.Code == codeTooLarge || status >= 300 && status < 500 && !passing(status):
		return dispatcher.Permanent(e)
	}
	if after := retryAfter(response.Header.Get("Retry-After"), time.Now()); after > 0 {
		return replay.RetryAfter(e, after)
	}
	return e
}

// passing reports whether the same request may succeed later, for a status from
// 400 to 499.
func passing(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusTooEarly || status == http.StatusTooManyRequests
}

func readError(response *http.Response) (errorText, error) {
	if location := response.Header.Get("Location"); location != "" && response.StatusCode < 400 {
		return errorText{}, fmt.Errorf("%w: it redirects to %.200q: use that URL", ErrResponse, location)
	}
	if err := checkType(response); err != nil {
		return errorText{}, err
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, maxErrorBody))
	if err != nil {
		return errorText{}, fmt.Errorf("%w: %w", ErrResponse, err)
	}
	return decodeError(data)
}

func decodeError(data []byte) (errorText, error) {
	var body errorBody
	err := json.Unmarshal(data, &body)
	if err == nil {
		err = checkVersion(body.Version)
	}
	if err == nil && body.Error.Code == "" {
		err = errors.New("no error code")
	}
	if err != nil {
		return errorText{}, fmt.Errorf("%w: %w", ErrResponse, err)
	}
	return body.Error, nil
}

// saidError is a server's error text, with the error for its code.
type saidError struct {
	errorText
	cause error
}

func (e saidError) Error() string { return fmt.Sprintf("%.40s: %.400s", e.Code, e.Message) }

func (e saidError) Unwrap() error { return e.cause }

func cause(text errorText) error {
	return saidError{text, map[string]error{
		codeVersion:      ErrVersion,
		codeUnauthorised: ErrUnauthorised,
		codeNotAssigned:  replay.ErrNotAssigned,
		codeNotRetained:  replay.ErrNotRetained,
		codeTooLarge:     ErrTooLarge,
	}[text.Code]}
}

// retryAfter parses a Retry-After header, seconds or a date; it returns 0 if it
// is neither.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	if date, err := http.ParseTime(header); err == nil {
		return min(max(date.Sub(now), 0), maxRetryAfter)
	}
	return 0
}
