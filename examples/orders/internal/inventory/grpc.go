package inventory

import (
	"context"

	"google.golang.org/grpc"

	"github.com/interlock-go/interlock/examples/orders/internal/order"
	"github.com/interlock-go/interlock/examples/orders/internal/pb"
	"github.com/interlock-go/interlock/examples/orders/internal/wire"
)

var form = wire.Form[Request, Answer, pb.InventoryRequest, pb.InventoryAnswer]{
	Request: func(r Request) *pb.InventoryRequest {
		m := &pb.InventoryRequest{Order: r.Order}
		for _, l := range r.Lines {
			m.Lines = append(m.Lines, &pb.InventoryRequest_Line{Product: l.Product, Quantity: l.Quantity, Price: l.Price})
		}
		return m
	},
	RequestOf: func(m *pb.InventoryRequest) Request {
		r := Request{Order: m.GetOrder()}
		for _, l := range m.GetLines() {
			r.Lines = append(r.Lines, order.Line{Product: l.GetProduct(), Quantity: l.GetQuantity(), Price: l.GetPrice()})
		}
		return r
	},
	Response:   func(a Answer) *pb.InventoryAnswer { return &pb.InventoryAnswer{Reserved: a.Reserved} },
	ResponseOf: func(m *pb.InventoryAnswer) Answer { return Answer{m.GetReserved()} },
}

// Register registers the service with a gRPC server.
func (s *Service) Register(server grpc.ServiceRegistrar) { pb.RegisterInventoryServer(server, rpc{s}) }

// GRPC calls the service at a gRPC server.
func GRPC(conn grpc.ClientConnInterface, token string) wire.Caller {
	c := pb.NewInventoryClient(conn)
	return form.Caller(token, map[string]wire.Call[pb.InventoryRequest, pb.InventoryAnswer]{
		"reserve": c.Reserve, "release": c.Release, "confirm": c.Confirm,
	})
}

type rpc struct{ s *Service }

func (r rpc) Reserve(ctx context.Context, in *pb.InventoryRequest) (*pb.InventoryAnswer, error) {
	return form.Serve(ctx, in, r.s.Reserve)
}

func (r rpc) Release(ctx context.Context, in *pb.InventoryRequest) (*pb.InventoryAnswer, error) {
	return form.Serve(ctx, in, r.s.Release)
}

func (r rpc) Confirm(ctx context.Context, in *pb.InventoryRequest) (*pb.InventoryAnswer, error) {
	return form.Serve(ctx, in, r.s.Confirm)
}
