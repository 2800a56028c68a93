package audit_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/ledger/internal/audit"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

func message(t *testing.T, text string) *book.Message {
	t.Helper()
	m, err := book.Decode([]byte(text))
	require.NoError(t, err)
	return m
}

func euros(t *testing.T, text string) []book.Money {
	t.Helper()
	a, err := book.ParseAmount(text)
	require.NoError(t, err)
	return []book.Money{{Amount: a, Commodity: "EUR"}}
}

// record is a message that ran right after the one before it.
func record(id uint64, m *book.Message, err error) audit.Record {
	return audit.Record{ID: id, Line: int(id) * 10, Message: m, Err: err, Run: audit.Run{Begin: 2*id - 1, End: 2 * id}}
}

func TestRecordsComeInAnyOrder(t *testing.T) {
	a := audit.New(nil, 2)
	deposit := message(t, `{"op":"deposit","account":"a","amount":"1","commodity":"EUR"}`)
	a.Finished(record(3, deposit, nil))
	a.Finished(record(1, deposit, nil))
	assert.Equal(t, 1, a.Missing())
	assert.Equal(t, 1, a.Outcomes.Total())
	a.Finished(record(2, deposit, nil))
	assert.Zero(t, a.Missing())
	assert.Equal(t, 3, a.Outcomes.Total())
	assert.EqualValues(t, 3, a.Order.Pairs)
	assert.Zero(t, a.Order.Violations)
	require.Len(t, a.Early, 2)
	assert.EqualValues(t, 1, a.Early[0].ID)
}

// What a message did that has run more than once is what it did last. A commit in
// doubt counts if the run goes on.
func TestRecordsOfAttempts(t *testing.T) {
	a := audit.New(nil, 0)
	deposit := message(t, `{"op":"deposit","account":"a","amount":"1","commodity":"EUR"}`)
	rejection := &book.Rejection{Reason: book.NoAccount}
	for i, c := range []struct {
		err               error
		doubtful, stopped bool
		counts            bool
	}{
		{counts: true},
		{err: rejection, counts: true},
		{doubtful: true, counts: true},
		{doubtful: true, stopped: true},
		{stopped: true, counts: true},
	} {
		id := uint64(i + 1)
		a.Ran(record(id, deposit, errors.New("an attempt before")), true)
		a.Ran(record(id, deposit, c.err), c.doubtful)
		counts, copied := a.Ended(id, c.stopped)
		assert.Equal(t, c.counts, counts, c)
		assert.False(t, copied)
	}
	assert.Equal(t, 4, a.Outcomes.Total())
	assert.Equal(t, 3, a.Outcomes.Count[audit.Applied])
	assert.Equal(t, 1, a.Outcomes.Count[audit.Rejected])
	assert.Zero(t, a.Missing())
}

// TestUndone: the record of what was undone does not count, and that of the run which
// follows does, whichever is told first.
func TestUndone(t *testing.T) {
	a := audit.New(nil, 0)
	deposit := message(t, `{"op":"deposit","account":"a","amount":"1","commodity":"EUR"}`)
	start := time.Now()
	first, second := record(1, deposit, nil), record(1, deposit, nil)
	first.Run.Start, second.Run.Start = start, start.Add(2*time.Second)
	a.Ran(first, false)
	a.Undone(1, start.Add(time.Second))
	counts, _ := a.Ended(1, true)
	assert.False(t, counts)

	first.ID, second.ID = 2, 2
	a.Ran(first, false)
	a.Ran(second, false)
	a.Undone(2, start.Add(time.Second))
	counts, copied := a.Ended(2, false)
	assert.True(t, counts)
	assert.False(t, copied)

	a.Ran(audit.Record{ID: 3, Copy: true}, false)
	counts, copied = a.Ended(3, false)
	assert.True(t, counts && copied)
}

func TestMoney(t *testing.T) {
	deposit := message(t, `{"op":"deposit","account":"a","amount":"1.50","commodity":"EUR"}`)
	day := record(3, message(t, `{"op":"end_of_day"}`), nil)
	refused := record(2, deposit, &book.Rejection{Reason: book.NoAccount})
	for name, c := range map[string]struct{ atDay, atEnd, problem string }{
		"conserved":       {"11.50", "11.50", ""},
		"lost during day": {"10", "11.50", "end of day, message 3: 1.50 EUR missing from the accounts"},
		"made at the end": {"11.50", "11.51", "at the end: -0.01 EUR missing from the accounts"},
	} {
		t.Run(name, func(t *testing.T) {
			a := audit.New(euros(t, "10"), 0)
			day.Reply.Totals = euros(t, c.atDay)
			a.Finished(record(1, deposit, nil))
			a.Finished(refused)
			a.Finished(day)
			a.Money.Close(euros(t, c.atEnd))
			assert.Equal(t, 1, a.Money.Closings)
			assert.Equal(t, 1, a.Money.Commodities())
			if c.problem == "" {
				assert.Empty(t, a.Money.Problems)
			} else {
				assert.Equal(t, []string{c.problem}, a.Money.Problems)
			}
		})
	}
}

func TestOutcomes(t *testing.T) {
	withdraw := `{"op":"withdraw","account":"a","amount":"1"}`
	expected := `{"op":"withdraw","account":"a","amount":"1","reject":true}`
	checked := `{"op":"withdraw","account":"a","amount":"1","expect":[{"account":"a","balance":"1"},{"account":"b","balance":"1"}]}`
	noCover := &book.Rejection{Reason: book.NoCover, Detail: "a has 0"}
	a := audit.New(nil, 0)
	var problems []audit.Verdict
	a.OnProblem = func(_ audit.Record, v audit.Verdict) { problems = append(problems, v) }
	for i, c := range []struct {
		message string
		err     error
	}{
		{withdraw, nil},
		{checked, nil},
		{expected, noCover},
		{withdraw, noCover},
		{withdraw, noCover},
		{checked, &book.UnmetError{Expectation: book.Expectation{Account: "a"}}},
		{expected, nil},
		{expected, &book.UnmetError{}},
		{withdraw, errors.New("disk full")},
	} {
		a.Finished(record(uint64(i+1), message(t, c.message), c.err))
	}
	o := &a.Outcomes
	assert.Equal(t, [...]int{2, 1, 2, 2, 1, 1}, o.Count)
	assert.Equal(t, 2, o.Held)
	assert.Equal(t, 9, o.Total())
	assert.False(t, o.Good())
	assert.Equal(t, []audit.Verdict{audit.RejectedAsExpected, audit.Rejected, audit.Rejected, audit.Unmet, audit.NotRejected, audit.Unmet, audit.Broken}, problems)

	var reasons []string
	for _, why := range o.Reasons() {
		reasons = append(reasons, why.Reason+": "+why.Example)
	}
	assert.Equal(t, []string{
		"failed: disk full",
		"not rejected: it should have been rejected, and was applied",
		"expectation not met: a has 0, expected 0",
		"no cover: a has 0",
		"no cover: a has 0",
	}, reasons)
	assert.Equal(t, 60, o.Reasons()[2].Line)
	assert.Equal(t, 2, o.Reasons()[2].Count)
	assert.Equal(t, "applied", audit.Applied.String())
	assert.Equal(t, "Verdict(9)", audit.Verdict(9).String())
}

func TestContention(t *testing.T) {
	var c audit.Contention
	start := time.Unix(0, 0)
	key := lockkeys.MustParse
	c.Blocked(2, key("a"), start)
	c.Blocked(2, key("b"), start.Add(time.Second)) // the first key counts
	c.Blocked(3, key("a"), start)
	c.Blocked(4, key("b"), start)
	c.Started(1, start) // it never waited
	c.Started(2, start.Add(2*time.Second))
	c.Started(3, start.Add(3*time.Second))
	c.Started(4, start.Add(9*time.Second))
	assert.Equal(t, 3, c.Waited)
	assert.Equal(t, []audit.Contended{{Key: key("a"), Count: 2, Time: 5 * time.Second}, {Key: key("b"), Count: 1, Time: 9 * time.Second}}, c.Top(5))
	assert.Len(t, c.Top(1), 1)
}

func TestNumbers(t *testing.T) {
	a := audit.New(nil, 0)
	deposit := message(t, `{"op":"deposit","account":"a","amount":"1"}`)
	for i, sequence := range []string{"a=1", "a=2, b=7", "b=9", "a=5, b=8", "a=5", "a=1;epoch=1", "a=6"} {
		r := record(uint64(i+2), deposit, nil)
		positions, err := ordering.ParseSequenceID(sequence, lockkeys.Root())
		require.NoError(t, err)
		r.Positions = positions
		a.Finished(r)
	}
	assert.Zero(t, a.Numbers.Streams())
	a.Ended(1, false) // it did not run, so the others need not wait for it
	assert.Equal(t, 2, a.Numbers.Streams())
	assert.Equal(t, 7, a.Outcomes.Total())
	assert.Equal(t, 3, a.Numbers.Violations)
	assert.Equal(t, []string{
		"message 5 is b=8 and came after b=9",
		"message 6 is a=5 and came after a=5",
		"message 8 is a=6 and came after a=1;epoch=1",
	}, a.Numbers.First)
}
