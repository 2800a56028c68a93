package inspect

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/inspect"
	"github.com/interlock-go/interlock/lockkeys"
)

const (
	keys    = 10_000
	waiting = 1 << 16
)

// BenchmarkViewed submits messages with one of 10,000 keys, all behind one that holds them
// until 65,536 wait, and then as fast as they are done. pages are how many are open, one
// of each kind in turn.
func BenchmarkViewed(b *testing.B) {
	tabs := []string{"overview", "keys", "blocked", "hot", "parked"}
	for _, pages := range []int{-1, 0, 1, 5} {
		name := fmt.Sprint("by=pages-", pages)
		if pages < 0 {
			name = "by=alone"
		}
		b.Run(name, func(b *testing.B) {
			all := make([]lockkeys.Key, keys)
			for i := range all {
				all[i] = lockkeys.Must("account", strconv.Itoa(i))
			}
			first := make(chan struct{})
			d, err := dispatcher.New(dispatcher.Config[int]{
				Keys: func(i int, c *lockkeys.Claim) error {
					if i < 0 {
						c.Exclusive(lockkeys.Must("account"))
					} else {
						c.Exclusive(all[i*7919%keys])
					}
					return nil
				},
				Handler: func(_ context.Context, i int) error {
					if i < 0 {
						<-first
					}
					return nil
				},
				Policy: dispatcher.LookAhead(waiting), MaxPending: 2 * waiting,
			})
			require.NoError(b, err)
			defer d.Close()
			end := func() {}
			if pages >= 0 {
				end = look(b, d, pages, tabs)
			}
			require.NoError(b, d.Submit(b.Context(), -1))
			for i := range waiting {
				require.NoError(b, d.Submit(b.Context(), i))
			}
			b.ResetTimer()
			begun := time.Now()
			close(first)
			for i := range b.N {
				if err := d.Submit(b.Context(), i); err != nil {
					b.Fatal(err)
				}
			}
			require.NoError(b, d.Drain(b.Context()))
			b.ReportMetric(0, "ns/op") // it has those that waited too
			b.ReportMetric(float64(b.N+waiting)/time.Since(begun).Seconds(), "messages/s")
			b.StopTimer()
			end()
		})
	}
}

// look opens pages.
func look(b *testing.B, d *dispatcher.Dispatcher[int], pages int, tabs []string) (end func()) {
	page, err := inspect.New(inspect.Config{Sources: []inspect.Named{{Name: "messages", Source: d}}})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	var open sync.WaitGroup
	for i := range pages {
		open.Go(func() {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/stream?tab="+tabs[i%len(tabs)], nil)
			page.ServeHTTP(nowhere{http.Header{}}, r)
		})
	}
	return func() { cancel(); open.Wait(); require.NoError(b, page.Close()) }
}

// nowhere is a viewer that throws away what it gets.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header              { return n.header }
func (n nowhere) Write(p []byte) (int, error)      { return len(p), nil }
func (n nowhere) WriteHeader(int)                  {}
func (n nowhere) Flush()                           {}
func (n nowhere) SetWriteDeadline(time.Time) error { return nil }
