package wire

import (
	"context"
	"crypto/subtle"
	"errors"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Over gRPC a call has its key and its token in the metadata. A refusal has the status
// FailedPrecondition, which gRPC itself never gives; what failed, and may have been done,
// is Unavailable.
const (
	keyMetadata   = "idempotency-key-bin" // binary, since a key may have any characters
	tokenMetadata = "authorization"
)

// finishAtMost is how long calls that are under way may take when a server is stopped.
const finishAtMost = 10 * time.Second

// ServeGRPC serves what register registers, and gRPC's health service, until ctx ends;
// then it finishes what is under way, for at most 10 s. If token is not empty, a call
// needs it as its bearer token, except those of the health service.
func ServeGRPC(ctx context.Context, listener net.Listener, token string, register func(grpc.ServiceRegistrar)) error {
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxBody), grpc.UnaryInterceptor(intercept(token)))
	healthy := health.NewServer()
	grpc_health_v1.RegisterHealthServer(server, healthy)
	register(server)
	stopped := make(chan struct{})
	end := context.AfterFunc(ctx, func() {
		defer close(stopped)
		healthy.Shutdown() // it says so to those who watch it
		hurry := time.AfterFunc(finishAtMost, server.Stop)
		defer hurry.Stop()
		server.GracefulStop()
	})
	err := server.Serve(listener)
	if end() {
		server.Stop() // the listener has failed
		return err
	}
	<-stopped
	if errors.Is(err, grpc.ErrServerStopped) { // before it began
		err = nil
	}
	return err
}

// keyOf is the type of the context's value that has the key of a call.
type keyOf struct{}

// intercept checks a call on its way in, and gives its error a status on its way out.
func intercept(token string) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, in any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if strings.HasPrefix(info.FullMethod, "/"+grpc_health_v1.Health_ServiceDesc.ServiceName+"/") {
			return handler(ctx, in)
		}
		if given := first(ctx, tokenMetadata); token != "" && subtle.ConstantTimeCompare([]byte(given), []byte("Bearer "+token)) == 0 {
			return nil, status.Error(codes.Unauthenticated, "the bearer token is wrong")
		}
		key := first(ctx, keyMetadata)
		if key == "" {
			return nil, status.Error(codes.InvalidArgument, "the metadata "+keyMetadata+" is missing")
		}
		out, err := handler(context.WithValue(ctx, keyOf{}, key), in)
		var refusal *Refusal
		switch {
		case err == nil:
			return out, nil
		case errors.As(err, &refusal):
			return nil, status.Error(codes.FailedPrecondition, refusal.Reason)
		case ctx.Err() != nil:
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		return nil, status.Error(codes.Unavailable, err.Error())
	}
}

// first returns the first value of a name in the metadata of a call, or "".
func first(ctx context.Context, name string) string {
	if all := metadata.ValueFromIncomingContext(ctx, name); len(all) > 0 {
		return all[0]
	}
	return ""
}

// Form is how the requests and answers of a service are written as messages of Protocol
// Buffers, I and O.
type Form[In, Out, I, O any] struct {
	Request    func(In) *I
	RequestOf  func(*I) In
	Response   func(Out) *O
	ResponseOf func(*O) Out
}

// Serve has f answer a call, in a server of [ServeGRPC].
func (form Form[In, Out, I, O]) Serve(ctx context.Context, in *I, f func(ctx context.Context, key string, in In) (Out, error)) (*O, error) {
	key, _ := ctx.Value(keyOf{}).(string)
	out, err := f(ctx, key, form.RequestOf(in))
	if err != nil {
		return nil, err
	}
	return form.Response(out), nil
}

// Call calls a method at a server.
type Call[I, O any] = func(ctx context.Context, in *I, opts ...grpc.CallOption) (*O, error)

// Caller calls a service by the methods of a client that was made of its description.
func (form Form[In, Out, I, O]) Caller(token string, methods map[string]Call[I, O]) Caller {
	return &stub[In, Out, I, O]{form, token, methods}
}

type stub[In, Out, I, O any] struct {
	form    Form[In, Out, I, O]
	token   string
	methods map[string]Call[I, O]
}

func (c *stub[In, Out, I, O]) Call(ctx context.Context, method, key string, in, out any) error {
	call, is := c.methods[method]
	if !is {
		return noMethod(method, c.methods)
	}
	value, isIn := in.(In)
	into, isOut := out.(*Out)
	if !isIn || !isOut {
		return Refuse("the request is not valid: it is a %T, to be answered by a %T", in, out)
	}
	sent := []string{keyMetadata, key}
	if c.token != "" {
		sent = append(sent, tokenMetadata, "Bearer "+c.token)
	}
	answer, err := call(metadata.AppendToOutgoingContext(ctx, sent...), c.form.Request(value))
	switch {
	case status.Code(err) == codes.FailedPrecondition:
		return &Refusal{status.Convert(err).Message()}
	case err != nil:
		return err
	}
	*into = c.form.ResponseOf(answer)
	return nil
}

// DialGRPC returns a connection to a server, without TLS. It connects with the first
// call, and again, soon, when the connection is lost. Close it.
func DialGRPC(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxBody)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 2 * time.Second,
		}))
}
