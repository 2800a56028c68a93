package saga_test

import (
	"context"
	"database/sql"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/replay/saga"
)

// wellFormed returns the texts of an SVG picture, and fails if it is not well-formed XML.
func wellFormed(t *testing.T, picture string) (texts []string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(picture))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		require.NoError(t, err)
		if text, ok := token.(xml.CharData); ok && strings.TrimSpace(string(text)) != "" {
			texts = append(texts, string(text))
		}
	}
}

func TestPictureOfADefinition(t *testing.T) {
	d := trip(nil)
	d.Steps = append(d.Steps, saga.Step[order]{Name: `<"#1">`, Do: nothing, Pivot: true, After: []string{"reserve", "confirm"}})
	r := saga.Register(d)
	assert.Equal(t, `flowchart LR
  s0["reserve"]
  s0 -.-> u0(["undo reserve"])
  s1["flight"]
  s0 --> s1
  s1 -.-> u1(["undo flight"])
  s2["hotel"]
  s0 --> s2
  s2 -.-> u2(["undo hotel"])
  s3["confirm"]
  s1 --> s3
  s2 --> s3
  s4{{"#lt;#quot;#35;1#quot;#gt;"}}
  s0 --> s4
  s3 --> s4
`, r.Mermaid())
	var b strings.Builder
	require.NoError(t, r.SVG(&b))
	assert.Equal(t, []string{"reserve", "can be undone", "flight", "can be undone", "hotel", "can be undone", "confirm", "nothing to undo", `<"#1">`, "nothing to undo"}, wellFormed(t, b.String()))
	assert.Equal(t, 1, strings.Count(b.String(), `stroke-width="3"`))
	assert.Equal(t, 6, strings.Count(b.String(), "<line"))
	require.ErrorIs(t, r.SVG(broken{}), errAway)
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errAway }

func TestGantt(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(1000 + ms)).UTC() }
	r := saga.Run{ID: "1", Status: saga.Compensated, Started: at(0), Changed: at(100), Ended: at(100),
		Steps: []saga.StepRun{{Name: "ask", Status: saga.Undone}, {Name: "pay", Status: saga.Failed}},
		History: []saga.Entry{
			{Type: saga.SagaStarted, Time: at(0)},
			{Type: saga.StepStarted, Step: "ask", Time: at(10)},
			{Type: saga.StepWaits, Step: "ask", Time: at(20)},
			{Type: saga.StepCompleted, Step: "ask", Time: at(40)},
			{Type: saga.StepStarted, Step: "pay", Time: at(40)},
			{Type: saga.StepFailed, Step: "pay", Time: at(50), Attempt: 1, Error: "a\x00<b>"},
			{Type: saga.StepFailed, Step: "pay", Time: at(60), Attempt: 2, Error: "again"},
			{Type: saga.CompensationStarted, Time: at(60)},
			{Type: saga.UndoStarted, Step: "ask", Time: at(60)},
			{Type: saga.CompensationFailed, Step: "ask", Time: at(70), Attempt: 1, Error: "impossible"},
			{Type: saga.SagaParked, Step: "ask", Time: at(70), Error: "impossible"},
			{Type: saga.SagaSkipped, Time: at(90), Operator: "ann"},
			{Type: saga.StepCompensated, Step: "ask", Time: at(100)},
			{Type: saga.SagaCompensated, Time: at(100)},
		}}
	var b strings.Builder
	require.NoError(t, r.Gantt(&b))
	texts := wellFormed(t, b.String())
	for _, want := range []string{"1: compensated", "waits for its keys", "has its keys", "ask: undone", "attempt 1", "waits for a reply",
		"attempt 1 has failed: a\uFFFD<b>", "attempt 2 has failed: again", "undo, attempt 1 has failed: impossible", "parked: impossible", "resumed by ann", "100ms"} {
		assert.Contains(t, texts, want)
	}
	assert.Contains(t, b.String(), `<rect x="294" y="42" width="128" height="18" fill="#d9d9d9"`, "20 of 100 ms")
	require.ErrorIs(t, r.Gantt(broken{}), errAway)

	t.Log("an attempt that ends after the run has turned back is not followed by a pause")
	b.Reset()
	require.NoError(t, saga.Run{ID: "1", Status: saga.Compensated, Started: at(0), Ended: at(100), Steps: []saga.StepRun{{Name: "ask"}},
		History: []saga.Entry{
			{Type: saga.StepStarted, Step: "ask", Time: at(0)},
			{Type: saga.CompensationStarted, Time: at(10)},
			{Type: saga.StepFailed, Step: "ask", Time: at(20), Attempt: 1, Error: "canceled"},
			{Type: saga.SagaCompensated, Time: at(100)},
		}}.Gantt(&b))
	assert.NotContains(t, b.String(), "pause")

	t.Log("a run of years")
	b.Reset()
	years := 3 * 365 * 24 * time.Hour
	require.NoError(t, saga.Run{ID: "1", Started: at(0), Ended: at(0).Add(years), Steps: []saga.StepRun{{Name: "ask"}},
		History: []saga.Entry{{Type: saga.StepStarted, Step: "ask", Time: at(0).Add(years / 2)}}}.Gantt(&b))
	assert.Contains(t, b.String(), `<rect x="486" y="42" width="320"`, "the second half of 640")

	t.Log("a real run, also while it is active")
	store := open(t, t.TempDir()+"/saga.db")
	c := coordinator(t, config(store), saga.Register(asks(waits)))
	require.NoError(t, store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error { return c.Start(ctx, tx, "1", order{}) }))
	run := until(t, c, "1", awaiting)
	b.Reset()
	require.NoError(t, run.Gantt(&b))
	assert.Contains(t, wellFormed(t, b.String()), "1: running")
}
