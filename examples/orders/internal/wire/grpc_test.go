package wire_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/interlock-go/interlock/examples/orders/internal/pb"
	"github.com/interlock-go/interlock/examples/orders/internal/wire"
)

// form writes what is asked in the words of another service.
var form = wire.Form[ask, ask, pb.ShippingRequest, pb.ShippingAnswer]{
	Request:    func(a ask) *pb.ShippingRequest { return &pb.ShippingRequest{Order: a.Text} },
	RequestOf:  func(m *pb.ShippingRequest) ask { return ask{m.GetOrder()} },
	Response:   func(a ask) *pb.ShippingAnswer { return &pb.ShippingAnswer{Tracking: a.Text} },
	ResponseOf: func(m *pb.ShippingAnswer) ask { return ask{m.GetTracking()} },
}

// waits echoes, refuses and fails as service does, and waits: it tells that it has begun,
// and waits until it is told to end or its context is.
type waits struct{ begun, end chan struct{} }

func (waits) Plan(ctx context.Context, in *pb.ShippingRequest) (*pb.ShippingAnswer, error) {
	return form.Serve(ctx, in, echo)
}

func (waits) Cancel(ctx context.Context, in *pb.ShippingRequest) (*pb.ShippingAnswer, error) {
	return form.Serve(ctx, in, refuse)
}

func (waits) Dispatch(ctx context.Context, in *pb.ShippingRequest) (*pb.ShippingAnswer, error) {
	return form.Serve(ctx, in, fail)
}

func (w waits) Deliver(ctx context.Context, in *pb.ShippingRequest) (*pb.ShippingAnswer, error) {
	return form.Serve(ctx, in, func(ctx context.Context, _ string, in ask) (ask, error) {
		w.begun <- struct{}{}
		select {
		case <-w.end:
			return in, nil
		case <-ctx.Done():
			w.end <- struct{}{}
			return ask{}, ctx.Err()
		}
	})
}

type grpcServer struct {
	conn   *grpc.ClientConn
	caller wire.Caller
	stop   context.CancelFunc
	ended  chan error
}

// serveGRPC serves w until the test ends.
func serveGRPC(t *testing.T, token string, w waits) *grpcServer {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	s := &grpcServer{stop: stop, ended: make(chan error, 1)}
	go func() {
		s.ended <- wire.ServeGRPC(ctx, listener, token, func(r grpc.ServiceRegistrar) { pb.RegisterShippingServer(r, w) })
	}()
	s.conn, err = wire.DialGRPC(listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { stop(); assert.NoError(t, <-s.ended); assert.NoError(t, s.conn.Close()) })
	s.caller = s.calls(token)
	return s
}

func (s *grpcServer) calls(token string) wire.Caller {
	c := pb.NewShippingClient(s.conn)
	return form.Caller(token, map[string]wire.Call[pb.ShippingRequest, pb.ShippingAnswer]{
		"echo": c.Plan, "refuse": c.Cancel, "fail": c.Dispatch, "wait": c.Deliver})
}

func TestStatusCodes(t *testing.T) {
	s := serveGRPC(t, "secret", waits{})
	c := pb.NewShippingClient(s.conn)
	call := func(f wire.Call[pb.ShippingRequest, pb.ShippingAnswer], pairs ...string) codes.Code {
		_, err := f(metadata.AppendToOutgoingContext(t.Context(), pairs...), &pb.ShippingRequest{})
		return status.Code(err)
	}
	token, key := []string{"authorization", "Bearer secret"}, []string{"idempotency-key-bin", "1"}
	assert.Equal(t, codes.Unauthenticated, call(c.Plan, key...))
	assert.Equal(t, codes.Unauthenticated, call(c.Plan, "authorization", "Bearer wrong"))
	assert.Equal(t, codes.Unauthenticated, call(c.Plan, "authorization", "secret"))
	assert.Equal(t, codes.InvalidArgument, call(c.Plan, token...))
	assert.Equal(t, codes.OK, call(c.Plan, append(token, key...)...))
	assert.Equal(t, codes.FailedPrecondition, call(c.Cancel, append(token, key...)...))
	assert.Equal(t, codes.Unavailable, call(c.Dispatch, append(token, key...)...))
	var out ask
	require.ErrorContains(t, s.calls("").Call(t.Context(), "echo", "1", ask{}, &out), "the bearer token is wrong")
	answer, err := grpc_health_v1.NewHealthClient(s.conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
	assert.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, answer.GetStatus())
}

// The time that a caller has is known to the service.
func TestDeadlines(t *testing.T) {
	w := waits{make(chan struct{}, 100), make(chan struct{}, 100)}
	s := serveGRPC(t, "", w)
	for begun := false; !begun; { // a call may not come to the service in time
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		require.Equal(t, codes.DeadlineExceeded, status.Code(s.caller.Call(ctx, "wait", "1", ask{}, new(ask))))
		cancel()
		select {
		case <-w.begun:
			begun = true
			<-w.end
		default:
		}
	}
}

// A server that is stopped finishes what is under way, and takes nothing more.
func TestServersStopGracefully(t *testing.T) {
	w := waits{make(chan struct{}), make(chan struct{})}
	s := serveGRPC(t, "", w)
	var out ask
	done := make(chan error, 1)
	go func() { done <- s.caller.Call(t.Context(), "wait", "1", ask{"for me"}, &out) }()
	<-w.begun
	s.stop()
	require.Eventually(t, func() bool {
		return status.Code(s.caller.Call(t.Context(), "echo", "2", ask{}, new(ask))) == codes.Unavailable
	}, waitAtMost, tick)
	w.end <- struct{}{}
	require.NoError(t, <-done)
	require.Equal(t, "for me", out.Text)
}
