package backup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/strictjson"
	"github.com/interlock-go/interlock/ordering"
)

// Version is the version of the protocol.
const Version = 1

type answerBody struct {
	Version int      `json:"version"`
	Results []result `json:"results"`
}

// result is the result of an event: one of the texts of [ordering.Result], or
// pending.
type result struct {
	Result  string `json:"result"`
	Message string `json:"message,omitempty"`
}

// pending is the result of an event that was accepted and has no outcome yet.
const pending = "pending"

type errorBody struct {
	Version int       `json:"version"`
	Error   errorText `json:"error"`
}

type errorText struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Event   *int   `json:"event,omitempty"` // index of the event at fault, from 0
}

// Codes of the protocol that both sides know.
const (
	codeVersion      = "bad_version"
	codeEvent        = "bad_event"
	codeUnauthorised = "unauthorised"
	codeTooLarge     = "too_large"
	codeTooMany      = "too_many"
	codeBusy         = "busy"
	codeUnavailable  = "unavailable"
)

// encodeRequest encodes the body of a request. The error for an invalid event is
// marked by [dispatcher.Permanent].
func encodeRequest(events []*ordering.Event) ([]byte, error) {
	for i, e := range events {
		err := ordering.ErrNilEvent
		if e != nil {
			err = e.Validate()
		}
		if err != nil {
			return nil, dispatcher.Permanent(&badEvent{i, err})
		}
	}
	return json.Marshal(struct {
		Version int               `json:"version"`
		Events  []*ordering.Event `json:"events"`
	}{Version, events})
}

// badEvent says which event of a request is not valid.
type badEvent struct {
	index int
	err   error
}

func (e *badEvent) Error() string { return fmt.Sprintf("events[%d]: %v", e.index, e.err) }

func (e *badEvent) Unwrap() error { return e.err }

// decodeRequest decodes the result of encodeRequest: at least one event and at most
// most, all valid, with a total size, which it returns, of at most maxBytes. Unknown
// fields are errors, so that no part of an event is lost. The error wraps
// [ErrVersion] for another version, [ErrTooLarge] for more events or larger ones, or
// a *badEvent.
func decodeRequest(data []byte, most int, maxBytes int64) (events []*ordering.Event, size int64, err error) {
	err = strictjson.Check(data, strictjson.Limits{Depth: 8, Members: max(most+1, ordering.MaxPositions+1), Texts: "headers"})
	if err != nil {
		return nil, 0, err
	}
	var body struct {
		Version int             `json:"version"`
		Events  json.RawMessage `json:"events"`
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(&body)
	switch { // the version is read in spite of unknown fields
	case body.Version != 0 && body.Version != Version:
		return nil, 0, fmt.Errorf("%w: the request is of %d, the receiver of %d", ErrVersion, body.Version, Version)
	case err != nil:
		return nil, 0, err
	case body.Version == 0:
		return nil, 0, errors.New("no version")
	}
	return decodeEvents(body.Events, most, maxBytes)
}

// decodeEvents stops at more than most events, or more than maxBytes in memory: a
// few bytes of text can be a large value.
func decodeEvents(text json.RawMessage, most int, maxBytes int64) (events []*ordering.Event, size int64, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if start, err := decoder.Token(); err != nil || start != json.Delim('[') {
		return nil, 0, errors.New("events is not an array")
	}
	for decoder.More() {
		i := len(events)
		if i == most {
			return nil, 0, fmt.Errorf("%w: more than %d events", ErrTooLarge, most)
		}
		var e *ordering.Event
		err := decoder.Decode(&e)
		if err == nil && e == nil {
			err = errors.New("null")
		}
		if err == nil {
			err = e.Validate()
		}
		if err != nil {
			return nil, 0, &badEvent{i, err}
		}
		if size += e.Size(); size > maxBytes {
			return nil, 0, fmt.Errorf("%w: %d events take more than %d bytes", ErrTooLarge, i+1, maxBytes)
		}
		events = append(events, e)
	}
	if len(events) == 0 {
		return nil, 0, errors.New("events is empty: send at least one")
	}
	return events, size, nil
}

// decodeAnswer decodes the answer to a request of n events, and stops at more than
// n results.
func decodeAnswer(data []byte, n int) ([]result, error) {
	d := strictjson.NewDecoder(bytes.NewReader(data), strictjson.Limits{Depth: 4, Members: 64}, false)
	version, results := 0, make([]result, 0, n)
	err := d.Object(func(name string) error {
		switch name {
		case "version":
			return d.Value(&version)
		case "results":
			return d.Array(func(i int) error {
				if i == n {
					return fmt.Errorf("more than one result for each of %d events", n)
				}
				var r result
				err := d.Value(&r)
				results = append(results, r)
				return err
			})
		}
		return d.Skip(name)
	})
	if err == nil {
		err = d.End()
	}
	if version != 0 || err == nil {
		if err := checkVersion(version); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrResponse, err)
	}
	if len(results) != n {
		return nil, fmt.Errorf("%w: %d results for %d events", ErrResponse, len(results), n)
	}
	return results, nil
}

// decodeError decodes the body of a refused request.
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

func checkVersion(version int) error {
	switch version {
	case Version:
		return nil
	case 0:
		return fmt.Errorf("%w: no version", ErrResponse)
	}
	return fmt.Errorf("%w: the response is of %d, the sender of %d", ErrVersion, version, Version)
}
