package bench

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// What dispatcher.Touch costs in a handler, switched off and on, beside Holds, and
// beside a look at a context alone. A handler's context is often derived: with a
// value, here.
func BenchmarkTouch(b *testing.B) {
	type valueKey struct{}
	type otherKey struct{}
	key := lockkeys.Must("client", "42", "account", "7")
	request := lockkeys.Request{Key: key}
	for _, c := range []struct {
		name string
		on   func(ctx context.Context, a dispatcher.Access)
		call func(ctx context.Context)
	}{
		{"context", nil, func(ctx context.Context) { _ = ctx.Value(valueKey{}) }},
		{"off", nil, func(ctx context.Context) { dispatcher.Touch(ctx, key, lockkeys.Exclusive) }},
		{"holds", nil, func(ctx context.Context) { _ = dispatcher.Holds(ctx, request) }},
		{"on", func(context.Context, dispatcher.Access) {}, func(ctx context.Context) { dispatcher.Touch(ctx, key, lockkeys.Exclusive) }},
	} {
		for _, derived := range []bool{false, true} {
			name := c.name + "/derived=no"
			if derived {
				name = c.name + "/derived=yes"
			}
			b.Run(name, func(b *testing.B) {
				d, err := dispatcher.New(dispatcher.Config[int]{
					Keys:    func(_ int, claim *lockkeys.Claim) error { claim.Exclusive(key); return nil },
					Touched: c.on,
					Handler: func(ctx context.Context, _ int) error {
						if derived {
							ctx = context.WithValue(ctx, otherKey{}, name)
						}
						b.ReportAllocs()
						b.ResetTimer()
						for range b.N {
							c.call(ctx)
						}
						b.StopTimer()
						return nil
					},
				})
				require.NoError(b, err)
				require.NoError(b, d.Do(context.Background(), 0))
				require.NoError(b, d.Close())
			})
		}
	}
}
