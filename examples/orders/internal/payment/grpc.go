package payment

import (
	"context"

	"google.golang.org/grpc"

	"github.com/interlock-go/interlock/examples/orders/internal/pb"
	"github.com/interlock-go/interlock/examples/orders/internal/wire"
)

var form = wire.Form[Request, Answer, pb.PaymentRequest, pb.PaymentAnswer]{
	Request: func(r Request) *pb.PaymentRequest {
		return &pb.PaymentRequest{Order: r.Order, Card: r.Card, Cents: r.Cents}
	},
	RequestOf:  func(m *pb.PaymentRequest) Request { return Request{m.GetOrder(), m.GetCard(), m.GetCents()} },
	Response:   func(a Answer) *pb.PaymentAnswer { return &pb.PaymentAnswer{Status: string(a.Status)} },
	ResponseOf: func(m *pb.PaymentAnswer) Answer { return Answer{Status(m.GetStatus())} },
}

// Register registers the service with a gRPC server.
func (s *Service) Register(server grpc.ServiceRegistrar) { pb.RegisterPaymentServer(server, rpc{s}) }

// GRPC calls the service at a gRPC server.
func GRPC(conn grpc.ClientConnInterface, token string) wire.Caller {
	c := pb.NewPaymentClient(conn)
	return form.Caller(token, map[string]wire.Call[pb.PaymentRequest, pb.PaymentAnswer]{
		"authorize": c.Authorize, "void": c.Void, "capture": c.Capture, "status": c.Status,
	})
}

type rpc struct{ s *Service }

func (r rpc) Authorize(ctx context.Context, in *pb.PaymentRequest) (*pb.PaymentAnswer, error) {
	return form.Serve(ctx, in, r.s.Authorize)
}

func (r rpc) Void(ctx context.Context, in *pb.PaymentRequest) (*pb.PaymentAnswer, error) {
	return form.Serve(ctx, in, r.s.Void)
}

func (r rpc) Capture(ctx context.Context, in *pb.PaymentRequest) (*pb.PaymentAnswer, error) {
	return form.Serve(ctx, in, r.s.Capture)
}

func (r rpc) Status(ctx context.Context, in *pb.PaymentRequest) (*pb.PaymentAnswer, error) {
	return form.Serve(ctx, in, r.s.Status)
}
