package ordering

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestReplaysInTurn: however many streams have a gap at once, no more than
// MaxReplays replays are under way, so goroutines are bounded. All have their turn,
// and what came meanwhile is not asked for.
func TestReplaysInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams, most = 500, 7
		var open, asked, largest atomic.Int64
		r := newRig(t, NewMemory())
		r.start(Config[*Event]{MaxReplays: most, GapTimeout: time.Second, Replayer: ReplayerFunc(
			func(ctx context.Context, missing Range, deliver func(context.Context, []*Event) error) (Answer, error) {
				largest.Store(max(largest.Load(), open.Add(1)))
				defer open.Add(-1)
				asked.Add(1)
				time.Sleep(time.Second)
				return Answer{}, deliver(ctx, []*Event{{Positions: []Position{{Stream: missing.Stream, Number: missing.From}}}})
			})})
		for i := range streams {
			r.give(numbered(fmt.Sprint("s", i), 2))
		}
		time.Sleep(1500 * time.Millisecond) // the first replays are under way
		for i := range 100 {
			r.give(numbered(fmt.Sprint("s", streams-1-i), 1))
		}
		time.Sleep(time.Hour)
		require.EqualValues(t, 2*streams, r.seq.Stats().Applied)
		require.EqualValues(t, most, largest.Load())
		require.LessOrEqual(t, asked.Load(), int64(streams-100+most), "but for those that were under way")
		r.stop()
	})
}
