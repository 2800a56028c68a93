package backup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
)

// Version is the version of the protocol.
const Version = 1

type answerBody struct {
	Version int      `json:"version"`
	Results []result `json:"results"`
}

// result is what became of an event: one of the texts of [ordering.Result], or
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
	Event   *int   `json:"event,omitempty"` // which one is at fault, from 0
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

// encodeRequest writes the body of a request. An event that is not valid is an
// error that is marked by [dispatcher.Permanent].
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

// decodeRequest reads what encodeRequest writes, if it has at least one event
// and no more than most, all valid. What it does not know is an error, so that
// nothing of an event gets lost. The error wraps [ErrVersion] for another
// version, [ErrTooLarge] for more events, or a *badEvent.
func decodeRequest(data []byte, most int) ([]*ordering.Event, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("the body is not UTF-8")
	}
	var body struct {
		Version int             `json:"version"`
		Events  json.RawMessage `json:"events"`
	}
	err := decodeStrictly(data, &body)
	switch { // the version is read in spite of fields that are not known
	case body.Version != 0 && body.Version != Version:
		return nil, fmt.Errorf("%w: the request is of %d, the receiver of %d", ErrVersion, body.Version, Version)
	case err != nil:
		return nil, err
	case body.Version == 0:
		return nil, errors.New("no version")
	}
	return decodeEvents(body.Events, most)
}

func decodeStrictly(data []byte, value any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(value); err != nil {
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return errors.New("more text behind the JSON value")
	}
	return nil
}

// decodeEvents does not make more than most events: a few bytes of text can be
// a large value.
func decodeEvents(text json.RawMessage, most int) ([]*ordering.Event, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if start, err := decoder.Token(); err != nil || start != json.Delim('[') {
		return nil, errors.New("events is not an array")
	}
	var events []*ordering.Event
	for decoder.More() {
		i := len(events)
		if i == most {
			return nil, fmt.Errorf("%w: more than %d events", ErrTooLarge, most)
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
			return nil, &badEvent{i, err}
		}
		events = append(events, e)
	}
	if len(events) == 0 {
		return nil, errors.New("events is empty: send at least one")
	}
	return events, nil
}

// decodeAnswer reads the answer to a request of n events.
func decodeAnswer(data []byte, n int) ([]result, error) {
	var body answerBody
	if err := json.Unmarshal(data, &body); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrResponse, err)
	}
	if err := checkVersion(body.Version); err != nil {
		return nil, err
	}
	if len(body.Results) != n {
		return nil, fmt.Errorf("%w: %d results for %d events", ErrResponse, len(body.Results), n)
	}
	return body.Results, nil
}

// decodeError reads what the receiver says in place of an answer.
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
