package pause_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/pause"
)

func TestFor(t *testing.T) {
	for name, test := range map[string]struct {
		d, ends, takes time.Duration
		err            error
	}{
		"at once":         {takes: 0},
		"for its time":    {d: time.Second, ends: time.Minute, takes: time.Second},
		"until ctx ends":  {d: time.Minute, ends: time.Second, takes: time.Second, err: context.DeadlineExceeded},
		"not at all then": {d: time.Minute, ends: -1, err: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if test.ends != 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.ends)
					defer cancel()
				}
				begun := time.Now()
				require.ErrorIs(t, pause.For(ctx, test.d), test.err)
				require.Equal(t, test.takes, time.Since(begun))
			})
		})
	}
}

// Many that wait for nothing, or for the same moment, crash the race detector if
// they receive from timers.
func TestManyAtOnce(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() {
					for range 50 {
						_ = pause.For(t.Context(), time.Duration(i%3)*time.Millisecond)
					}
				})
			}
			all.Wait()
		})
	}
}
