package intake_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/interlock-go/interlock/examples/ledger/internal/feed"
	"github.com/interlock-go/interlock/examples/ledger/internal/intake"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
)

// applied is what was applied of inputs: messages by the input and their place there,
// which is where the ledger numbers them and knows them by.
type applied map[int64][]string

// take reads a CSV and applies what is new of it. It returns the numbers of the lines
// that are malformed, and what ends the input.
func (a applied) take(t require.TestingT, s store.Inputs, name, csv string) (malformed []int, end error) {
	source := intake.New(context.Background(), intake.Config{Inputs: s, Source: feed.NewHledger(strings.NewReader(csv), ""), Name: name})
	for place := 0; ; place++ {
		item, err := source.Next()
		if bad, ok := errors.AsType[*feed.Malformed](err); ok {
			malformed = append(malformed, bad.Line)
			place--
			continue
		}
		if err == io.EOF {
			return malformed, nil
		}
		if err != nil {
			return malformed, err
		}
		text := item.Message.Note
		for _, p := range item.Message.Postings {
			text += fmt.Sprintf(" %s %s", p.Account, p.Money)
		}
		of := a[source.ID()]
		require.LessOrEqual(t, place, len(of))
		if place < len(of) {
			require.Equal(t, of[place], text, "what is numbered by its place stays the same")
			continue
		}
		a[source.ID()] = append(of, text)
	}
}

// postings are all that were applied.
func (a applied) postings() (list []string) {
	for _, messages := range a {
		for _, m := range messages {
			note, rest, _ := strings.Cut(m, " ")
			fields := strings.Fields(rest)
			for pair := range slices.Chunk(fields, 3) {
				list = append(list, note+" "+strings.Join(pair, " "))
			}
		}
	}
	slices.Sort(list)
	return list
}

const csvHeader = "\"txnidx\",\"description\",\"account\",\"amount\",\"commodity\",\"comment\"\n"

// transaction is one of a CSV: amounts that cancel each other two by two, so that it
// balances in the middle too.
func transaction(index int, amounts ...string) string {
	var b strings.Builder
	for i, amount := range amounts {
		for _, sign := range []string{"", "-"} {
			fmt.Fprintf(&b, "\"%d\",\"n%d\",\"a%d%s\",\"%s%s\",\"EUR\",\"\"\n", index, index, i, sign, sign, amount)
		}
	}
	return b.String()
}

// A CSV may be cut anywhere, again and again, and have another name each time: once it
// is whole, everything in it was applied once.
func TestACutCSVGoesOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := csvHeader
		for index := range rapid.IntRange(1, 4).Draw(t, "transactions") {
			amounts := rapid.SliceOfN(rapid.SampledFrom([]string{"1.50", "2.00", "30.25"}), 1, 3).Draw(t, "amounts")
			whole += transaction(index+1, amounts...)
		}
		cuts := rapid.SliceOfN(rapid.IntRange(len(csvHeader), len(whole)), 0, 4).Draw(t, "cuts")
		s, a := store.NewMemory(), applied{}
		for i, n := range slices.Sorted(slices.Values(cuts)) {
			name := rapid.SampledFrom([]string{"books.csv", fmt.Sprint("books.csv.", i)}).Draw(t, "name")
			_, end := a.take(t, s, name, whole[:n])
			require.NoError(t, end)
		}
		for range 2 {
			malformed, end := a.take(t, s, "books.csv", whole)
			require.NoError(t, end)
			require.Empty(t, malformed)
		}
		require.LessOrEqual(t, len(a), 1, "it is one input")
		want := applied{}
		_, end := want.take(t, store.NewMemory(), "books.csv", whole)
		require.NoError(t, end)
		require.Equal(t, want.postings(), a.postings())
	})
}

// What was read before is compared with what there is now: only a transaction that was
// the last one may have been cut.
func TestACSVThatWasChanged(t *testing.T) {
	before := csvHeader + transaction(1, "1.50") + transaction(2, "2.00", "3.00") + transaction(3, "4.00")
	for name, c := range map[string]struct {
		now string
		err string // "" if it goes on
		new int    // messages
	}{
		"the same":                     {now: before},
		"grown":                        {now: before + transaction(4, "5.00"), new: 1},
		"the last one goes on":         {now: strings.TrimSuffix(before, transaction(3, "4.00")) + transaction(3, "4.00", "6.00"), new: 1},
		"it goes on, and grown":        {now: strings.TrimSuffix(before, transaction(3, "4.00")) + transaction(3, "4.00", "6.00", "1.00") + transaction(4, "5.00"), new: 2},
		"shorter":                      {now: csvHeader + transaction(1, "1.50") + transaction(2, "2.00", "3.00")},
		"shorter, within one":          {now: csvHeader + transaction(1, "1.50") + transaction(2, "2.00"), err: "line 4: "},
		"an amount":                    {now: strings.Replace(before, "2.00", "7.00", 2), err: "line 4: "},
		"the first amount":             {now: strings.ReplaceAll(before, "1.50", "7.50"), err: "began otherwise, and had 2 of the first 3"},
		"more in an earlier one":       {now: csvHeader + transaction(1, "1.50") + transaction(2, "2.00", "3.00", "9.00") + transaction(3, "4.00"), err: "line 4: "},
		"more in the first one":        {now: csvHeader + transaction(1, "1.50", "9.00") + transaction(2, "2.00", "3.00") + transaction(3, "4.00"), err: "line 2: "},
		"one less":                     {now: csvHeader + transaction(1, "1.50") + transaction(3, "4.00"), err: "line 4: "},
		"its numbers mean another sum": {now: strings.ReplaceAll(before, "4.00", "4.000"), err: "line 8: "},
	} {
		t.Run(name, func(t *testing.T) {
			s, a := store.NewMemory(), applied{}
			_, end := a.take(t, s, "books.csv", before)
			require.NoError(t, end)
			for range 2 {
				_, end = a.take(t, s, "books.csv", c.now)
				if c.err == "" {
					require.NoError(t, end)
				} else {
					require.ErrorContains(t, end, c.err)
				}
				require.Len(t, a, 1)
				for _, messages := range a {
					assert.Len(t, messages, 3+c.new)
				}
			}
		})
	}
}

// What the first amounts mean may depend on later ones, so that it is another sum, or
// not known, once the input is whole. Then it is refused, and not taken for something
// new.
func TestACutCSVThatMeansSomethingElse(t *testing.T) {
	dollars := strings.ReplaceAll(transaction(2, "2.50"), "EUR", "$")
	cut := csvHeader + transaction(1, "1.000") + dollars
	for more, want := range map[string]string{
		transaction(3, "1.000.000"):        "line 2: the input begins like books.csv.part, which was read before, with the same 0 messages, and goes on otherwise",
		transaction(3, "1,000,000"):        "",
		transaction(3, "1.000.000", "2.5"): `line 2: amount "1.000"`,
	} {
		s, a := store.NewMemory(), applied{}
		_, end := a.take(t, s, "books.csv.part", cut)
		require.NoError(t, end)
		for range 2 {
			_, end = a.take(t, s, "books.csv", cut+more)
			if want == "" {
				require.NoError(t, end, more)
			} else {
				require.ErrorContains(t, end, want, more)
			}
			assert.Len(t, a, 1)
		}
	}
}

// Inputs with the same first line are told apart by the others of the first message.
func TestInputsWithTheSameFirstLine(t *testing.T) {
	s, a := store.NewMemory(), applied{}
	files := []string{transaction(1, "1.50", "2.00"), transaction(1, "1.50", "3.00"), transaction(1, "1.50", "4.00", "5.00")}
	for round := range 2 {
		for i, text := range files {
			_, end := a.take(t, s, fmt.Sprint(i), csvHeader+text)
			require.NoError(t, end)
			if round == 0 {
				require.Len(t, a, i+1)
			}
		}
	}
	require.Len(t, a, len(files))
	_, end := a.take(t, s, "0", csvHeader+files[0]+transaction(2, "9.00"))
	require.NoError(t, end)
	require.Len(t, a, len(files), "it has grown")
}
