package feed_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/ledger/internal/feed"
)

// told reads a source to its end and tells what it gave, one line for each
// message or malformed part.
func told(source feed.Source) (lines []string, end error) {
	for {
		item, err := source.Next()
		if malformed, ok := errors.AsType[*feed.Malformed](err); ok {
			lines = append(lines, fmt.Sprintf("line %d malformed: %v, in %q", malformed.Line, malformed.Err, malformed.Raw))
			continue
		}
		if err != nil {
			return lines, err
		}
		line := fmt.Sprintf("line %d: %s", item.Line, item.Message.Op)
		for _, p := range item.Message.Postings {
			line += fmt.Sprintf(" [%s %s]", p.Account, p.Money)
		}
		lines = append(lines, line)
	}
}

func TestNDJSON(t *testing.T) {
	long := `{"op":"open","account":"` + strings.Repeat("a", 1<<20) + `"}`
	input := "\uFEFF" + `{"op":"end_of_day"}` + "\r\n\n  \n" + `{"op":"nonsense"}` + "\n" + long + "\n" + `{"op":"post","postings":[{"account":"a","amount":"1"}]}`
	lines, end := told(feed.NewNDJSON(iotest.OneByteReader(strings.NewReader(input))))
	require.Equal(t, io.EOF, end)
	require.Len(t, lines, 4)
	assert.Equal(t, "line 1: end_of_day", lines[0])
	assert.Contains(t, lines[1], `line 4 malformed: op "nonsense" is not known`)
	assert.Contains(t, lines[2], "line 5 malformed: longer than 1048576 bytes")
	assert.Equal(t, "line 6: post [a 1]", lines[3])
}

func TestBrokenInput(t *testing.T) {
	broken := errors.New("cable cut")
	for _, format := range []feed.Format{feed.NDJSON, feed.HledgerCSV} {
		source, err := feed.Open(io.MultiReader(strings.NewReader("txnidx,account,amount,commodity\n"), iotest.ErrReader(broken)), format)
		require.NoError(t, err)
		_, end := told(source)
		require.ErrorIs(t, end, broken, format)
	}
	_, err := feed.Open(nil, "xml")
	require.ErrorContains(t, err, `format "xml" is not known`)
}

const header = `"txnidx","date","date2","status","code","description","comment","account","amount","commodity","credit","debit","posting-status","posting-comment"` + "\n"

func row(txnidx, account, amount, commodity string) string {
	return fmt.Sprintf("%q,\"2024-01-01\",\"\",\"\",\"\",\"what\",\"\",\"%s\",%q,%q,\"\",\"\",\"\",\"\"\n", txnidx, account, amount, commodity)
}

func TestHledger(t *testing.T) {
	for name, c := range map[string]struct {
		input string
		want  []string
	}{
		"postings of a transaction are one message": {
			header + row("1", "a:b", "-1.50", "$") + row("1", "c", "1.50", "$") + row("7", "a:b", "2", "") + row("2", "x", "1234,56", "EUR"),
			[]string{"line 2: post [a:b -1.50 $] [c 1.50 $]", "line 4: post [a:b 2]", "line 5: post [x 1234.56 EUR]"},
		},
		"virtual postings": {
			header + row("1", "(a:b)", "1", "") + row("1", "[c d]", "2", "") + row("1", "(e) f", "2", ""),
			[]string{"line 2: post [a:b 1] [c d 2] [(e) f 2]"},
		},
		"quotes, commas and lines in fields": {
			header + `"1","2024-01-01","","","","say ""hi"", and` + "\n" + `bye","","a, b","1","green apples","","","",""` + "\n" + row("2", "c", "1", ""),
			[]string{"line 2: post [a, b 1 green apples]", "line 4: post [c 1]"},
		},
		"a bad amount takes its transaction with it": {
			header + row("1", "a", "1", "") + row("2", "a", "1", "") + row("2", "b", "one", "") + row("3", "c", "1", ""),
			[]string{"line 2: post [a 1]", `line 3 malformed: line 4 of the same transaction: amount "one" is not a decimal number: write it like "-12.50"`, "line 5: post [c 1]"},
		},
		"so does a line with too few fields": {
			header + row("1", "a", "1", "") + row("2", "a", "1", "") + "\"2\",\"2024\"\n" + row("2", "b", "-1", "") + row("3", "c", "1", ""),
			[]string{"line 2: post [a 1]", "line 3 malformed: line 4 of the same transaction: wrong number of fields", "line 6: post [c 1]"},
		},
		"and where it cannot be told which, both sides are given up": {
			header + row("1", "a", "1", "") + row("2", "a", "1", "") + "garb\"age\n" + row("3", "b", "-1", "") + row("4", "c", "1", ""),
			[]string{"line 2: post [a 1]", `line 3 malformed: line 4 of the same transaction: bare " in non-quoted`, `line 5 malformed: line 4, which may belong to the same transaction: bare " in non-quoted`, "line 6: post [c 1]"},
		},
		"garbage at the beginning": {
			header + "garb\"age\n" + row("3", "b", "-1", "") + row("4", "c", "1", ""),
			[]string{`line 2 malformed: bare " in non-quoted`, `line 3 malformed: line 2, which may belong to the same transaction: bare "`, "line 4: post [c 1]"},
		},
		"bad names": {
			header + row("1", "a::b", "1", "") + row("2", "a", "1", strings.Repeat("E", 65)) + row("", "a", "1", "") + row("3", "/", "1", "") + row("4", "c", "1", ""),
			[]string{"line 2 malformed: account \"a::b\": a level has no name", "line 3 malformed: commodity", "line 5 malformed: line 4, which may belong", "line 6: post [c 1]"},
		},
		"only the columns that are needed": {
			"commodity,amount,account,txnidx\n$,5,a,1\n",
			[]string{"line 2: post [a 5 $]"},
		},
		"nothing": {header, nil},
	} {
		t.Run(name, func(t *testing.T) {
			lines, end := told(feed.NewHledger(iotest.HalfReader(strings.NewReader(c.input))))
			require.Equal(t, io.EOF, end)
			require.Len(t, lines, len(c.want), strings.Join(lines, "\n"))
			for i, want := range c.want {
				assert.Contains(t, lines[i], want)
			}
		})
	}
}

// What is malformed is kept as it stands in the input.
func TestHledgerKeepsTheText(t *testing.T) {
	bad := row("2", "a", "1", "") + row("2", "b", "one", "")
	source := feed.NewHledger(strings.NewReader(header + row("1", "a", "1", "") + bad + row("3", "a", "1", "")))
	_, err := source.Next()
	require.NoError(t, err)
	_, err = source.Next()
	malformed, ok := errors.AsType[*feed.Malformed](err)
	require.True(t, ok)
	assert.Equal(t, bad, malformed.Raw)
}

func TestNotHledger(t *testing.T) {
	for input, problem := range map[string]string{
		"":                           "EOF",
		"a,b,c\n1,2,3\n":             `no column "txnidx"`,
		"txnidx,account,amount\n":    `no column "commodity"`,
		"\"txnidx\"x,account\n":      "header of the CSV",
		`{"op":"end_of_day"}` + "\n": "header of the CSV",
	} {
		_, end := told(feed.NewHledger(strings.NewReader(input)))
		assert.ErrorContains(t, end, problem, input)
	}
}

func TestParseHledgerAmount(t *testing.T) {
	for text, want := range map[string]string{
		"0":                "0",
		"-1.50":            "-1.50",
		"+3":               "3",
		"1234,56":          "1234.56",
		"-1,000":           "-1.000",
		"1,000.25":         "1000.25",
		"1.000,25":         "1000.25",
		"-1.234.567,8":     "-1234567.8",
		"1,234,567":        "1234567",
		"1 000.5":          "1000.5",
		"1\u00A0000,5":     "1000.5",
		"1'000.5":          "1000.5",
		".5":               "0.5",
		"-,5":              "-0.5",
		"5.":               "5",
		"489.957000000000": "489.957000000000",
	} {
		amount, err := feed.ParseHledgerAmount(text)
		if assert.NoError(t, err, text) {
			assert.Equal(t, want, amount.String(), text)
		}
	}
	for _, text := range []string{"", "-", ".", "one", "1.000.25,5,5", "1,2.3,4", "1e5", "--1", "$1", "1-"} {
		_, err := feed.ParseHledgerAmount(text)
		assert.Error(t, err, text)
	}
}

func TestFormatOf(t *testing.T) {
	for name, want := range map[string]feed.Format{"a.csv": feed.HledgerCSV, "a.CSV": feed.HledgerCSV, "a.ndjson": feed.NDJSON, "x/b.jsonl": feed.NDJSON, "-": feed.NDJSON} {
		format, err := feed.FormatOf(name)
		require.NoError(t, err)
		assert.Equal(t, want, format, name)
	}
	_, err := feed.FormatOf("books.journal")
	assert.ErrorContains(t, err, "say -format")
}

func FuzzNDJSON(f *testing.F) {
	f.Add([]byte("{\"op\":\"end_of_day\"}\n\nx\n{\"op\":\"open\",\"account\":\"a\"}"))
	f.Add([]byte("\xef\xbb\xbf{}\r\n"))
	f.Fuzz(func(t *testing.T, input []byte) {
		lines, end := told(feed.NewNDJSON(bytes.NewReader(input)))
		require.Equal(t, io.EOF, end)
		require.LessOrEqual(t, len(lines), bytes.Count(input, []byte("\n"))+1)
	})
}

// Whatever the input, no text of it is lost: each data line is in a message or
// in what is malformed.
func FuzzHledger(f *testing.F) {
	f.Add([]byte(header + row("1", "a", "1", "") + row("2", "b", "x", "")))
	f.Add([]byte(header + "\"1\",\"\n\"\n,,\n"))
	f.Add([]byte("txnidx,account,amount,commodity\n1,a,1,\n\n1,\"b\"c,1,\n2,a,1,"))
	f.Fuzz(func(t *testing.T, input []byte) {
		source := feed.NewHledger(bytes.NewReader(input))
		line := 1
		for {
			item, err := source.Next()
			malformed, bad := errors.AsType[*feed.Malformed](err)
			switch {
			case bad:
				require.Greater(t, malformed.Line, line)
				require.NotEmpty(t, malformed.Raw)
				line = malformed.Line
			case err != nil:
				return
			default:
				require.Greater(t, item.Line, line)
				require.NoError(t, item.Message.Validate())
				line = item.Line
			}
		}
	})
}

func FuzzParseHledgerAmount(f *testing.F) {
	for _, text := range []string{"1,000.25", "1.000,25", "-,5", "1 000", "1.000.000", ",", "+1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		amount, err := feed.ParseHledgerAmount(text)
		if err != nil {
			return
		}
		again, err := feed.ParseHledgerAmount(amount.String())
		require.NoError(t, err)
		require.True(t, amount.Equal(again.Decimal), "%q: %s, %s", text, amount, again)
	})
}
