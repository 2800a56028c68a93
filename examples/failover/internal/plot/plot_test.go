package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/failover/internal/feed"
	"github.com/interlock-go/interlock/examples/failover/internal/measure"
)

// Names that are not harmless in XML, an event that is lost, one that is applied
// twice, an outage, and a run without anything.
func TestPictureIsXML(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	order := feed.Order{N: 1, Key: 1, Number: 1, Due: start}
	lost := feed.Order{N: 2, Key: 1, Number: 2, Due: start.Add(time.Second)}
	applied := feed.Applied{Order: order, Channel: feed.HTTP, At: start.Add(30 * time.Millisecond)}
	run := measure.Run{
		Sent: []feed.Order{order, lost}, Applied: []feed.Applied{applied, applied},
		Outages: []measure.Outage{{Died: start, Back: start.Add(2 * time.Second)}},
	}
	var out strings.Builder
	require.NoError(t, Write(&out, []Panel{{`<a & "b">`, run}, {"nothing", measure.Run{}}}))
	for _, text := range []string{"1 of 2 delivered, 0 out of order, 1 duplicates applied", "key 1 number 2, lost", "once more", outageColour} {
		require.Contains(t, out.String(), text)
	}
	for decoder := xml.NewDecoder(strings.NewReader(out.String())); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	require.Error(t, Write(full{}, nil))
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestSteps(t *testing.T) {
	for span, want := range map[time.Duration]time.Duration{
		time.Millisecond: 100 * time.Microsecond, 26 * time.Second: 5 * time.Second, 95 * time.Second: 10 * time.Second,
	} {
		require.Equal(t, want, niceStep(span), span)
	}
}
