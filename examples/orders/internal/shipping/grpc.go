package shipping

import (
	"context"

	"google.golang.org/grpc"

	"github.com/interlock-go/interlock/examples/orders/internal/pb"
	"github.com/interlock-go/interlock/examples/orders/internal/wire"
)

var form = wire.Form[Request, Answer, pb.ShippingRequest, pb.ShippingAnswer]{
	Request:   func(r Request) *pb.ShippingRequest { return &pb.ShippingRequest{Order: r.Order, Country: r.Country} },
	RequestOf: func(m *pb.ShippingRequest) Request { return Request{m.GetOrder(), m.GetCountry()} },
	Response: func(a Answer) *pb.ShippingAnswer {
		return &pb.ShippingAnswer{Tracking: a.Tracking, Status: string(a.Status)}
	},
	ResponseOf: func(m *pb.ShippingAnswer) Answer { return Answer{m.GetTracking(), Status(m.GetStatus())} },
}

// Register registers the service with a gRPC server.
func (s *Service) Register(server grpc.ServiceRegistrar) { pb.RegisterShippingServer(server, rpc{s}) }

// GRPC calls the service at a gRPC server.
func GRPC(conn grpc.ClientConnInterface, token string) wire.Caller {
	c := pb.NewShippingClient(conn)
	return form.Caller(token, map[string]wire.Call[pb.ShippingRequest, pb.ShippingAnswer]{
		"plan": c.Plan, "cancel": c.Cancel, "dispatch": c.Dispatch, "deliver": c.Deliver,
	})
}

type rpc struct{ s *Service }

func (r rpc) Plan(ctx context.Context, in *pb.ShippingRequest) (*pb.ShippingAnswer, error) {
	return form.Serve(ctx, in, r.s.Plan)
}

func (r rpc) Cancel(ctx context.Context, in *pb.ShippingRequest) (*pb.ShippingAnswer, error) {
	return form.Serve(ctx, in, r.s.Cancel)
}

func (r rpc) Dispatch(ctx context.Context, in *pb.ShippingRequest) (*pb.ShippingAnswer, error) {
	return form.Serve(ctx, in, r.s.Dispatch)
}

func (r rpc) Deliver(ctx context.Context, in *pb.ShippingRequest) (*pb.ShippingAnswer, error) {
	return form.Serve(ctx, in, r.s.Deliver)
}
