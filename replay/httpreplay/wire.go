package httpreplay

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
)

// Version is the version of the protocol.
const Version = 1

// maxQuery is the longest query that a server reads, in bytes.
const maxQuery = 16 << 10

// query returns the query of a request, its parameters sorted.
func query(r ordering.Range) string {
	values := url.Values{
		"version": {strconv.Itoa(Version)},
		"stream":  {r.Stream.String()},
		"from":    {strconv.FormatUint(r.From, 10)},
		"to":      {strconv.FormatUint(r.To, 10)},
	}
	if r.Epoch != 0 {
		values.Set("epoch", strconv.FormatUint(uint64(r.Epoch), 10))
	}
	if r.Before > 0 {
		values.Set("before", strconv.Itoa(min(r.Before, math.MaxUint16)))
	}
	return values.Encode()
}

// parseQuery parses the result of query. The error wraps [ErrVersion] if the
// request has another version.
func parseQuery(raw string) (r ordering.Range, err error) {
	if len(raw) > maxQuery {
		return r, fmt.Errorf("the query has %d bytes: at most %d are allowed", len(raw), maxQuery)
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return r, err
	}
	if v := values["version"]; len(v) == 1 && v[0] != strconv.Itoa(Version) {
		return r, fmt.Errorf("%w: the request is of %.20q, the server of %d", ErrVersion, v[0], Version)
	}
	for _, name := range []string{"version", "stream", "from", "to"} {
		if n := len(values[name]); n != 1 {
			return r, fmt.Errorf("parameter %q occurs %d times: give it once", name, n)
		}
		if values.Get(name) == "" {
			return r, fmt.Errorf("parameter %q is empty", name)
		}
	}
	epoch, err := parseOption(values, "epoch")
	if err != nil {
		return r, err
	}
	before, err := parseOption(values, "before")
	if err != nil {
		return r, err
	}
	r.Epoch, r.Before = epoch, int(before)
	if len(values) != 4+len(values["epoch"])+len(values["before"]) {
		return r, errors.New("parameters other than version, stream, from, to, epoch and before")
	}
	if r.Stream, err = lockkeys.Parse(values.Get("stream")); err != nil {
		return r, err
	}
	if r.From, err = parseNumber(values, "from"); err != nil {
		return r, err
	}
	if r.To, err = parseNumber(values, "to"); err != nil {
		return r, err
	}
	if r.From > r.To {
		return r, fmt.Errorf("from is %d, after to, %d", r.From, r.To)
	}
	return r, nil
}

func parseNumber(values url.Values, name string) (uint64, error) {
	text := values.Get(name)
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n == 0 || n > ordering.MaxNumber {
		return 0, fmt.Errorf("parameter %q is %.40q: give a number from 1 to %d", name, text, int64(ordering.MaxNumber))
	}
	return n, nil
}

// parseOption parses a parameter that is left out if it is 0.
func parseOption(values url.Values, name string) (uint16, error) {
	texts := values[name]
	if len(texts) == 0 {
		return 0, nil
	}
	n, err := strconv.ParseUint(texts[0], 10, 16)
	if err != nil || len(texts) > 1 || texts[0][0] == '0' {
		return 0, fmt.Errorf("parameter %q is %.40q: give one number from 1 to 65535, or leave it out", name, texts)
	}
	return uint16(n), nil
}

type answerBody struct {
	Version int             `json:"version"`
	Events  json.RawMessage `json:"events"`
	Before  json.RawMessage `json:"before,omitempty"`
	NoSuch  json.RawMessage `json:"no_such"`
}

// encodeAnswer encodes an answer: as many events as the bounds allow, the lowest
// first, likewise the ranges that never existed, and as many of the last events
// before those as there is room for then. It fails if not even the first event can
// be written, or an event was not requested.
func encodeAnswer(a replay.Answer, asked ordering.Range, maxEvents, maxBytes int) ([]byte, error) {
	events, err := inOrder(a.Events, asked)
	if err != nil {
		return nil, err
	}
	var list bytes.Buffer
	written := 0
	for i, e := range events {
		if i == maxEvents {
			break
		}
		text, err := encodeEvent(e)
		if err == nil && list.Len()+len(text)+1 > maxBytes {
			err = fmt.Errorf("%w: event %.80q is %d bytes of JSON, an answer at most %d", ErrTooLarge, e.Name(), len(text), maxBytes)
		}
		if err != nil && i == 0 {
			return nil, err
		}
		if err != nil {
			break
		}
		if i > 0 {
			list.WriteByte(',')
		}
		list.Write(text)
		written++
	}
	var before json.RawMessage
	if written == len(events) { // or those before may be before one that is left out, for which a client refuses the answer
		before, err = encodeBefore(a.Before, min(maxEvents-len(events), asked.Before), maxBytes-list.Len())
	}
	if err != nil {
		return nil, err
	}
	never := rangesInOrder(a.NoSuch, asked)
	noSuch, err := json.Marshal(never[:min(len(never), maxEvents)])
	if err != nil {
		return nil, err
	}
	return json.Marshal(answerBody{Version, fmt.Appendf(nil, "[%s]", list.Bytes()), before, noSuch})
}

// encodeBefore encodes as many of the last events as the bounds allow, and as can be
// written.
func encodeBefore(events []*ordering.Event, maxEvents, maxBytes int) (json.RawMessage, error) {
	var texts []json.RawMessage
	size := 0
	for _, e := range slices.Backward(events) {
		if e == nil || len(texts) >= maxEvents {
			break
		}
		text, err := encodeEvent(e)
		if size += len(text) + 1; err != nil || size > maxBytes {
			break
		}
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		return nil, nil
	}
	slices.Reverse(texts)
	return json.Marshal(texts)
}

// inOrder returns the events by number, if all were requested.
func inOrder(events []*ordering.Event, asked ordering.Range) ([]*ordering.Event, error) {
	for i, e := range events {
		if e == nil {
			return nil, fmt.Errorf("event %d of %d is nil", i+1, len(events))
		}
		if p, _ := e.On(asked.Stream); !asked.Has(p) {
			return nil, fmt.Errorf("event %.80q, %.200s, was not asked for", e.Name(), ordering.FormatSequenceID(e.Positions))
		}
	}
	number := func(e *ordering.Event) uint64 { p, _ := e.On(asked.Stream); return p.Number }
	return slices.SortedStableFunc(slices.Values(events), func(a, b *ordering.Event) int { return cmp.Compare(number(a), number(b)) }), nil
}

// rangesInOrder returns the ranges that overlap the requested one, by their first
// number, and then the others. It does not return nil.
func rangesInOrder(ranges []ordering.Range, asked ordering.Range) []ordering.Range {
	rank := func(r ordering.Range) uint64 {
		if r.Epoch == asked.Epoch && r.From <= asked.To && asked.From <= r.To {
			return r.From
		}
		return ordering.MaxNumber + 1
	}
	ranges = append([]ordering.Range{}, ranges...)
	slices.SortStableFunc(ranges, func(a, b ordering.Range) int { return cmp.Compare(rank(a), rank(b)) })
	return ranges
}

// encodeEvent encodes an event. It refuses text that JSON would change.
func encodeEvent(e *ordering.Event) ([]byte, error) {
	texts := []string{e.ID, e.Type, e.CorrelationID, e.CausationID}
	for name, value := range e.Headers {
		texts = append(texts, name, value)
	}
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return nil, fmt.Errorf("event %.80q: %.80q is not UTF-8, which JSON cannot carry: use the payload", e.Name(), text)
		}
	}
	text, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("event %.80q: %w", e.Name(), err)
	}
	return text, nil
}

type errorBody struct {
	Version int       `json:"version"`
	Error   errorText `json:"error"`
}

type errorText struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Codes of the protocol that the client evaluates.
const (
	codeVersion      = "bad_version"
	codeUnauthorised = "unauthorised"
	codeNotAssigned  = "not_assigned"
	codeNotRetained  = "not_retained"
	codeTooLarge     = "too_large"
)
