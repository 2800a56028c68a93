package backup

import (
	"bytes"
	"context"
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
	"github.com/interlock-go/interlock/replay/outbox"
)

const (
	// maxResult bounds the bytes read of an answer: once, plus once for each
	// event.
	maxResult = 16 << 10
	// maxRetryAfter is the longest Retry-After that is respected.
	maxRetryAfter = time.Hour
	// expectFrom is the size of a body, in bytes, from which on the receiver is
	// asked first whether it accepts it: the answer can get lost if the receiver
	// does not read the body to its end.
	expectFrom = 256 << 10
)

// ClientConfig configures a [Client]. URL is required; the zero value of every
// other field means its default.
type ClientConfig struct {
	// URL is that of the receiver, without a query.
	URL string
	// Key signs the requests. Default: none.
	Key Key
	// Token is sent with the requests, in place of a signature. Default: none.
	Token Token
	// HTTP makes the requests: set it for TLS and proxies. Its CheckRedirect is
	// not used. It should keep as many connections open as there are concurrent
	// requests, see [net/http.Transport.MaxIdleConnsPerHost]. With HTTP/2 set
	// [net/http.HTTP2Config.SendPingTimeout]; otherwise requests may fail for
	// many minutes after the receiver's machine was lost, though another one has
	// its address. Default: one that keeps 64 connections, with pings.
	HTTP *http.Client
	// Timeout bounds a request with its answer. It should be longer than the
	// receiver's Wait. Default: 10 s.
	Timeout time.Duration
}

func (c ClientConfig) validate() error {
	var p settings.Problems
	u, err := url.Parse(c.URL)
	if err != nil {
		p.Add(true, "URL: %w", err)
	} else {
		p.Add(u.Scheme != "http" && u.Scheme != "https" || u.Host == "", "URL is %q: give one that begins with https:// or http://", u.Redacted())
		p.Add(u.RawQuery != "" || u.Fragment != "", "URL is %q: it must have no query and no fragment", u.Redacted())
		p.Add(u.User != nil, "URL has a user: give a Key or a Token")
	}
	if c.Key.ID != "" || c.Key.Secret != nil {
		err := c.Key.validate()
		p.Add(err != nil, "Key: %w", err)
		p.Add(c.Token != "", "Key and Token are both set: keep one")
	}
	if c.Token != "" {
		err := c.Token.validate()
		p.Add(err != nil, "Token: %w", err)
	}
	p.Add(c.Timeout < 0, "Timeout is %v: it must not be negative", c.Timeout)
	return p.Err(ErrConfig)
}

// Client posts events to a [Handler]. It implements [outbox.Publisher] and is
// safe for concurrent use.
type Client struct {
	cfg  ClientConfig
	http http.Client
	own  *http.Transport // nil if the caller gave one
}

var _ outbox.Publisher = (*Client)(nil)

// NewClient returns a client. The error wraps [ErrConfig]. It connects with
// the first request.
func NewClient(cfg ClientConfig) (*Client, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	settings.Default(&cfg.Timeout, 10*time.Second)
	c := &Client{cfg: cfg}
	if cfg.HTTP != nil {
		c.http = *cfg.HTTP
	} else {
		c.own = httppool.New(cfg.Timeout)
		c.http.Transport = c.own
	}
	// A signature is only for the configured receiver.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// Close closes idle connections, unless [ClientConfig].HTTP is set, and returns
// nil. It does not end requests, and others may follow.
func (c *Client) Close() error {
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
	return nil
}

// Publish posts an event and returns nil once the receiver has it durably. The
// error is an [*Error] or a [*ResultError]. It is marked by
// [dispatcher.Permanent] if the receiver would always refuse the event: it is not
// valid, too large, or contradicts others in its numbers. After any other error
// send it again, also after one for a wrong key or URL, which is not the event's
// fault.
func (c *Client) Publish(ctx context.Context, e *ordering.Event) error {
	errs, err := c.Send(ctx, []*ordering.Event{e})
	if err != nil {
		if errors.Is(err, ErrTooLarge) || errors.Is(err, ErrBadEvent) {
			return dispatcher.Permanent(err)
		}
		return err
	}
	return errs[0]
}

// Send posts events in one request. It returns an error for each, in their
// order, like Publish; nil for those that the receiver has durably. If err is not
// nil, none of them is confirmed: it is an [*Error] for the request as a whole;
// or, if nothing was sent, one that is marked by [dispatcher.Permanent] and wraps
// the [*ordering.EventError] of an invalid event.
func (c *Client) Send(ctx context.Context, events []*ordering.Event) (errs []error, err error) {
	if len(events) == 0 {
		return nil, nil
	}
	body, err := encodeRequest(events)
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	response, err := c.post(ctx, body)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := c.read(response, maxResult*(1+int64(len(events))))
	if err != nil {
		return nil, err
	}
	results, err := decodeAnswer(data, len(events))
	if err != nil {
		return nil, &Error{URL: c.cfg.URL, Status: response.StatusCode, Err: err}
	}
	errs = make([]error, len(events))
	for i, r := range results {
		errs[i] = r.err(events[i])
	}
	return errs, nil
}

// err returns the sender's error for a result.
func (r result) err(e *ordering.Event) error {
	if r.isDurable() {
		return nil
	}
	err := &ResultError{Event: e.Name(), Result: r.Result, Message: r.Message}
	if r.Result == ordering.Refused.String() {
		return dispatcher.Permanent(err)
	}
	return err
}

func (c *Client) post(ctx context.Context, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return nil, &Error{URL: c.cfg.URL, Err: err}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	// Not sent: it lets the transport repeat the request on another connection
	// if a kept one turns out to be dead.
	request.Header["Idempotency-Key"] = []string{}
	if len(body) >= expectFrom {
		request.Header.Set("Expect", "100-continue")
	}
	switch {
	case c.cfg.Key.ID != "":
		request.Header.Set("Authorization", c.cfg.Key.authorization(body, time.Now()))
	case c.cfg.Token != "":
		request.Header.Set("Authorization", bearer+string(c.cfg.Token))
	}
	response, err := c.http.Do(request)
	if err != nil {
		if u := (*url.Error)(nil); errors.As(err, &u) {
			err = u.Err // the rest is in Error
		}
		if errors.Is(err, context.DeadlineExceeded) {
			_ = c.Close() // idle connections may be dead, too
		}
		return nil, &Error{URL: c.cfg.URL, Err: err}
	}
	return response, nil
}

// read reads the body of an answer. For any other response it returns an
// [*Error].
func (c *Client) read(response *http.Response, most int64) ([]byte, error) {
	fail := &Error{URL: c.cfg.URL, Status: response.StatusCode}
	if location := response.Header.Get("Location"); location != "" && response.StatusCode < 400 {
		fail.Err = fmt.Errorf("%w: it redirects to %.200q: use that URL", ErrResponse, location)
		return nil, fail
	}
	fail.RetryAfter = retryAfter(response.Header.Get("Retry-After"), time.Now())
	header := response.Header.Get("Content-Type")
	if kind, _, err := mime.ParseMediaType(header); err != nil || kind != "application/json" {
		fail.Err = fmt.Errorf("%w: its type is %.80q: is the URL that of a backup receiver?", ErrResponse, header)
		return nil, fail
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	switch {
	case err != nil:
		fail.Err = fmt.Errorf("%w: cut off after %d bytes: %w", ErrResponse, len(data), err)
	case int64(len(data)) > most:
		fail.Err = fmt.Errorf("%w: more than %d bytes", ErrResponse, most)
	case response.StatusCode == http.StatusOK:
		return data, nil
	default:
		fail.Code, fail.Err = cause(data)
	}
	return nil, fail
}

// saidError is a receiver's error text, with the error for its code.
type saidError struct {
	errorText
	cause error
}

func (e saidError) Error() string { return fmt.Sprintf("%.40s: %.1000s", e.Code, e.Message) }

func (e saidError) Unwrap() error { return e.cause }

func cause(data []byte) (code string, err error) {
	text, err := decodeError(data)
	if err != nil {
		return "", err
	}
	return text.Code, saidError{text, map[string]error{
		codeVersion:      ErrVersion,
		codeUnauthorised: ErrUnauthorised,
		codeEvent:        ErrBadEvent,
		codeTooLarge:     ErrTooLarge,
		codeTooMany:      ErrBusy,
		codeBusy:         ErrBusy,
		codeUnavailable:  ErrBusy,
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
