package report_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/ledger/internal/audit"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/report"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

func balances(t *testing.T) []report.Balance {
	t.Helper()
	s := store.NewMemory()
	c := &book.Changes{States: map[book.Account]book.State{}, Balances: map[book.Holding]decimal.Decimal{}}
	for h, cents := range map[book.Holding]int64{
		{Account: "A:X:1", Commodity: "EUR"}: 1_234_567_89,
		{Account: "A:X:2", Commodity: "EUR"}: -50,
		{Account: "A:X", Commodity: "EUR"}:   100,
		{Account: "A-B", Commodity: "USD"}:   -2_50,
	} {
		c.States[h.Account], c.Balances[h] = book.Active, decimal.New(cents, -2)
	}
	c.States["Empty:one"] = book.Active
	s.Apply(c)
	list, err := report.Balances(context.Background(), s)
	require.NoError(t, err)
	return list
}

func TestBalances(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, report.WriteBalances(&out, balances(t)))
	assert.Equal(t, `account,commodity,own_balance,subtree_balance
A,EUR,0,1234568.39
A:X,EUR,1.00,1234568.39
A:X:1,EUR,1234567.89,1234567.89
A:X:2,EUR,-0.50,-0.50
A-B,USD,-2.50,-2.50
Empty,,0,0
Empty:one,,0,0
`, out.String())
}

func ran(t *testing.T, id, worker int, from, to time.Duration, text string) audit.Record {
	t.Helper()
	m, err := book.Decode([]byte(text))
	require.NoError(t, err)
	start := time.Unix(0, 0)
	return audit.Record{ID: uint64(id), Line: id, Message: m, Run: audit.Run{
		Begin: uint64(2*id - 1), End: uint64(2 * id), Start: start.Add(from), Stop: start.Add(to), Worker: worker,
	}}
}

func TestTimeline(t *testing.T) {
	const ms = time.Millisecond
	records := []audit.Record{
		ran(t, 1, 4, 0, 5*ms, `{"op":"deposit","account":"client:1:a","amount":"1","id":"<first>"}`),
		ran(t, 2, 0, ms, 3*ms, `{"op":"buying_power","client":"client:2"}`),
		ran(t, 3, 0, 4*ms, 9*ms, `{"op":"transfer","from":"client:1:a","to":"Assets:Bank","amount":"1"}`),
		ran(t, 4, 4, 10*ms, 12*ms, `{"op":"end_of_day"}`),
	}
	for i := range 12 {
		records = append(records, ran(t, 5+i, 1, 12*ms, 13*ms, fmt.Sprintf(`{"op":"deposit","account":"x%d","amount":"1"}`, i)))
	}
	var svg bytes.Buffer
	require.NoError(t, report.NewTimeline(records, 99).WriteSVG(&svg, "A & B"))
	text := svg.String()
	requireXML(t, text)
	for _, want := range []string{
		"A &amp; B", "The first 16 of 99 messages, in 13ms.", ">worker 4<", ">client/1<", ">whole book<", ">others<",
		">only reads<", ">several: a stripe for each<", "&lt;first&gt; #1 deposit: client/1, 0s after the start, for 5ms",
		"#3 transfer: Assets and client/1",
	} {
		assert.Contains(t, text, want)
	}
	assert.Less(t, strings.Index(text, ">worker 0<"), strings.Index(text, ">worker 4<"))
	assert.NotContains(t, text, ">worker 2<")

	svg.Reset()
	require.NoError(t, report.NewTimeline(nil, 0).WriteSVG(&svg, "nothing"))
	requireXML(t, svg.String())
	require.ErrorIs(t, report.NewTimeline(records, 16).WriteSVG(full{}, ""), errFull)
}

func requireXML(t *testing.T, text string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(text))
	for {
		_, err := decoder.Token()
		if err == io.EOF {
			return
		}
		require.NoError(t, err)
	}
}

var errFull = errors.New("disk full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func summary(t *testing.T) *report.Summary {
	a := audit.New(nil, 0)
	a.Finished(ran(t, 1, 0, 0, 1, `{"op":"post","postings":[{"account":"A:X","amount":"1"}],"expect":[{"account":"A:X","balance":"1"}]}`))
	refused := ran(t, 2, 0, 0, 1, `{"op":"withdraw","account":"A:X","amount":"5","reject":true}`)
	refused.Err = &book.Rejection{Reason: book.NoCover, Detail: "A:X has 1"}
	a.Finished(refused)
	a.Contention.Blocked(2, lockkeys.MustParse("A/X"), time.Unix(0, 0))
	a.Contention.Started(2, time.Unix(2, 0))
	return &report.Summary{
		Input: "a test", Read: 2, Audit: a, Elapsed: time.Second / 2, Workers: 3, Policy: "look-ahead(7)", Store: "memory",
		Stats: store.Stats{Commits: 1, Messages: 1}, Journaled: 1, Balances: balances(t),
		SpeedUp: report.SpeedUp{Messages: 2, Workers: 3, Together: time.Second, Alone: 3 * time.Second},
	}
}

func TestSummary(t *testing.T) {
	s := summary(t)
	s.Audit.Money.Close(nil)
	s.Audit.Money.Problems = nil
	var out bytes.Buffer
	require.NoError(t, s.Write(&out))
	assert.True(t, s.Good())
	for _, want := range []string{
		"input       a test\n",
		"messages    2: 1 applied, 1 rejected, 0 malformed\n",
		"dispatch    3 workers, look-ahead(7)\n",
		"throughput  4 messages/s: all in 500ms\n",
		"3.0× over one worker",
		"A/X                                          1 waited          2s each",
		"1  no cover, as expected",
		"such as line 2: A:X has 1",
		"1,234,568.39 EUR",
		"✓ nothing lost or doubled: 2 read, 2 ended, 1 applied, 1 in the journal",
		"✓ expectations: 1 held; not met in 0 messages",
	} {
		assert.Contains(t, out.String(), want)
	}
	assert.NotContains(t, out.String(), "✗")
	assert.NotContains(t, out.String(), "done before")
	require.ErrorIs(t, s.Write(full{}), errFull)
}

// A run that was started again says what was done before.
func TestSummaryOfARestart(t *testing.T) {
	s := summary(t)
	s.Read, s.Before, s.Restart = 1002, 1000, 41*time.Millisecond
	var out bytes.Buffer
	require.NoError(t, s.Write(&out))
	assert.True(t, s.Good(), out.String())
	assert.Contains(t, out.String(), "messages    1,002: 1,000 done before, 1 applied, 1 rejected, 0 malformed\n")
	assert.Contains(t, out.String(), "restart     the first message that was not done before ended after 41ms\n")
	assert.Contains(t, out.String(), "1,002 read, 1,000 done before, 2 ended")
}

// Each check fails when what it checks is wrong.
func TestChecksCanFail(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(s *report.Summary)
		want  string
	}{
		"a message too few in the journal": {func(s *report.Summary) { s.Journaled-- }, "nothing lost or doubled"},
		"a message that did not end":       {func(s *report.Summary) { s.Read++ }, "nothing lost or doubled"},
		"out of order":                     {func(s *report.Summary) { s.Audit.Order.Violations++ }, "order"},
		"numbers":                          {func(s *report.Summary) { s.Audit.Numbers.Violations++ }, "numbers"},
		"a contradiction":                  {func(s *report.Summary) { s.Refused++; s.Read++ }, "contradict each other: 1 message"},
		"one that waits":                   {func(s *report.Summary) { s.Held++; s.Read++; s.Waiting = make([]ordering.Parking, 1) }, "1 stream cannot go on"},
		"money":                            {func(s *report.Summary) { s.Audit.Money.Close(nil) }, "money conserved"},
		"an expectation":                   {func(s *report.Summary) { s.Audit.Outcomes.Count[audit.Unmet]++; s.Read++ }, "expectations"},
		"a rejection":                      {func(s *report.Summary) { s.Audit.Outcomes.Count[audit.Rejected]++; s.Read++ }, "rejected"},
		"malformed":                        {func(s *report.Summary) { s.Malformed++ }, "malformed"},
		"a failure":                        {func(s *report.Summary) { s.Failure = errFull }, "run to its end"},
	} {
		t.Run(name, func(t *testing.T) {
			s := summary(t)
			require.True(t, s.Good())
			c.spoil(s)
			require.False(t, s.Good())
			var failed []string
			for _, check := range s.Checks() {
				if !check.OK {
					failed = append(failed, check.Text)
				}
			}
			require.Len(t, failed, 1)
			assert.Contains(t, failed[0], c.want)
		})
	}
	s := summary(t)
	s.Served = true
	s.Audit.Outcomes.Count[audit.Rejected]++
	s.Read++
	assert.True(t, s.Good(), "whoever sent the message was told")
}
