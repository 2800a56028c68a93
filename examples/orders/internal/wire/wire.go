// Package wire carries calls between the orchestrator and the services: in the process,
// over HTTP or RabbitMQ, as JSON, or over gRPC, as Protocol Buffers. A call has an
// idempotency key. What a service does not want to do for certain is a [Refusal]; after
// any other error it is unknown whether the action was done.
package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Caller calls the methods of a service.
type Caller interface {
	// Call calls a method with a key that is the same whenever the call is repeated, and
	// decodes its answer into out, a pointer.
	Call(ctx context.Context, method, key string, in, out any) error
}

// Refusal is the error of an action that was refused for certain, and was not done.
type Refusal struct{ Reason string }

// Error returns the reason.
func (r *Refusal) Error() string { return "refused: " + r.Reason }

// Refuse returns a Refusal.
func Refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

// ErrNoMethod is wrapped by the error for a method that the service does not have.
var ErrNoMethod = errors.New("wire: no such method")

// Service has the methods of a service by their names.
type Service map[string]Method

// Method takes a key and a body as JSON, and returns its answer as JSON.
type Method func(ctx context.Context, key string, body []byte) ([]byte, error)

// Of makes a Method of a function. A body that is no In is refused.
func Of[In, Out any](f func(ctx context.Context, key string, in In) (Out, error)) Method {
	return func(ctx context.Context, key string, body []byte) ([]byte, error) {
		var in In
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, Refuse("the request is not valid: %v", err)
		}
		out, err := f(ctx, key, in)
		if err != nil {
			return nil, err
		}
		return json.Marshal(out)
	}
}

// handle calls a method by its name.
func (s Service) handle(ctx context.Context, method, key string, body []byte) ([]byte, error) {
	m, is := s[method]
	if !is {
		return nil, noMethod(method, s)
	}
	return m(ctx, key, body)
}

func noMethod[M any](method string, there map[string]M) error {
	return fmt.Errorf("%w: %q: there are %q", ErrNoMethod, method, slices.Sorted(maps.Keys(there)))
}

// Local calls a service in this process.
func Local(s Service) Caller { return local{s} }

type local struct{ Service }

func (l local) Call(ctx context.Context, method, key string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	answer, err := l.handle(ctx, method, key, body)
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, out)
}
