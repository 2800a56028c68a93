package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/interlock-go/interlock/bench/internal/measure"
	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// BenchmarkTouch is what dispatcher.Touch costs in a handler, switched off and on, beside
// Holds, and beside a look at a context alone. A handler's context is often derived, from
// one with a value here.
func BenchmarkTouch(b *testing.B) {
	type valueKey struct{}
	key := lockkeys.Must("client", "42", "account", "7")
	touch := func(ctx context.Context) { dispatcher.Touch(ctx, key, lockkeys.Exclusive) }
	for _, derived := range []bool{false, true} {
		b.Run(fmt.Sprint("derived=", derived), func(b *testing.B) {
			var race measure.Race
			for _, c := range []struct {
				name string
				on   func(ctx context.Context, a dispatcher.Access)
				call func(ctx context.Context)
			}{
				{"context", nil, func(ctx context.Context) { _ = ctx.Value(key) }},
				{"off", nil, touch},
				{"holds", nil, func(ctx context.Context) { _ = dispatcher.Holds(ctx, lockkeys.Request{Key: key}) }},
				{"on", func(context.Context, dispatcher.Access) {}, touch},
			} {
				race.Run(b, c.name, func(b *testing.B) {
					d, err := dispatcher.New(dispatcher.Config[int]{
						Keys:    func(_ int, claim *lockkeys.Claim) error { claim.Exclusive(key); return nil },
						Touched: c.on,
						Handler: func(ctx context.Context, _ int) error {
							if derived {
								ctx = context.WithValue(ctx, valueKey{}, key)
							}
							b.ResetTimer()
							for range b.N {
								c.call(ctx)
							}
							b.StopTimer()
							return nil
						},
					})
					must(err)
					must(d.Do(context.Background(), 0))
					must(d.Close())
				})
			}
		})
	}
}
