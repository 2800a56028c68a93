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

// Wherever a message is cut, that is said of it, and of nothing else.
func TestNDJSONThatWasCut(t *testing.T) {
	const cut = "line 2 malformed: the line has no end: the input was cut"
	whole := `{"op":"deposit","account":"client:\u00e9é\"1","amount":"1.00","expect":[{"account":"a","balance":"1"}],"reject":false}`
	for n := range len(whole) {
		lines, end := told(feed.NewNDJSON(strings.NewReader(`{"op":"end_of_day"}` + "\n" + whole[:n])))
		require.Equal(t, io.EOF, end)
		if n == 0 {
			require.Len(t, lines, 1)
			continue
		}
		require.Len(t, lines, 2, whole[:n])
		assert.Contains(t, lines[1], cut, whole[:n])
	}
	for _, other := range []string{`{"op":"open"}`, `{"op":"open"` + "\n", "hello", `{"op"}`, `{"op":"open"} x`, "[]"} {
		lines, _ := told(feed.NewNDJSON(strings.NewReader(`{"op":"end_of_day"}` + "\n" + other)))
		require.Len(t, lines, 2, other)
		assert.NotContains(t, lines[1], "was cut", other)
	}
}

// Something that was added to an input whose last line had no end is read as what
// it is.
func TestObjectsOnOneLine(t *testing.T) {
	post := func(amount string) string {
		return `{"op":"post","postings":[{"account":"}{","amount":"` + amount + `"}]}`
	}
	lines, end := told(feed.NewNDJSON(strings.NewReader(post("1") + post("2") + " " + post("3") + "\n" + post("4") + `{"op":` + "\n" + post("5") + "x\n" + post("6"))))
	require.Equal(t, io.EOF, end)
	require.Len(t, lines, 7, lines)
	for i, want := range []string{"line 1: post [}{ 1]", "line 1: post [}{ 2]", "line 1: post [}{ 3]", "line 2: post [}{ 4]",
		"line 2 malformed: not JSON", "line 3 malformed: more text after the message", "line 4: post [}{ 6]"} {
		assert.Contains(t, lines[i], want)
	}
}

func TestBrokenInput(t *testing.T) {
	broken := errors.New("cable cut")
	for _, format := range []feed.Format{feed.NDJSON, feed.HledgerCSV} {
		source, err := feed.Open(io.MultiReader(strings.NewReader("txnidx,account,amount,commodity\n"), iotest.ErrReader(broken)), format, "")
		require.NoError(t, err)
		_, end := told(source)
		require.ErrorIs(t, end, broken, format)
	}
	_, err := feed.Open(nil, "xml", "")
	require.ErrorContains(t, err, `format "xml" is not known`)
}

const header = `"txnidx","date","date2","status","code","description","comment","account","amount","commodity","credit","debit","posting-status","posting-comment"` + "\n"

func row(txnidx, account, amount, commodity string) string {
	return fmt.Sprintf("\"%s\",\"2024-01-01\",\"\",\"\",\"\",\"what\",\"\",\"%s\",\"%s\",\"%s\",\"\",\"\",\"\",\"\"\n", txnidx, account, amount, commodity)
}

// pair is a transaction of two postings.
func pair(txnidx, account, amount, commodity string) string {
	return row(txnidx, account, amount, commodity) + row(txnidx, "o", strings.NewReplacer("--", "").Replace("-"+amount), commodity)
}

func TestHledger(t *testing.T) {
	for name, c := range map[string]struct {
		input string
		want  []string
	}{
		"postings of a transaction are one message": {
			header + row("1", "a:b", "-1.50", "$") + row("1", "c", "1.50", "$") + pair("7", "a:b", "2", "") + pair("2", "x", "1234,56", "EUR"),
			[]string{"line 2: post [a:b -1.50 $] [c 1.50 $]", "line 4: post [a:b 2] [o -2]", "line 6: post [x 1234.56 EUR] [o -1234.56 EUR]"},
		},
		"virtual postings": {
			header + row("1", "(a:b)", "1", "") + row("1", "[c d]", "2", "") + row("1", "[d]", "-2", "") + row("1", "(e) f", "0", ""),
			[]string{"line 2: post [a:b 1] [c d 2] [d -2] [(e) f 0]"},
		},
		"quotes, commas and lines in fields": {
			header + `"1","2024-01-01","","","","say ""hi"", and` + "\n" + `bye","","(a, b)","1","green apples","","","",""` + "\n" + pair("2", "c", "1", ""),
			[]string{"line 2: post [a, b 1 green apples]", "line 4: post [c 1] [o -1]"},
		},
		"a bad amount takes its transaction with it": {
			header + pair("1", "a", "1", "") + row("2", "a", "1", "") + row("2", "b", "one", "") + pair("3", "c", "1", ""),
			[]string{"line 2: post [a 1]", `line 4 malformed: line 5 of the same transaction: amount "one" is not a decimal number`, "line 6: post [c 1]"},
		},
		"so does a line with too few fields": {
			header + pair("1", "a", "1", "") + row("2", "a", "1", "") + "\"2\",\"2024\"\n" + row("2", "b", "-1", "") + pair("3", "c", "1", ""),
			[]string{"line 2: post [a 1]", "line 4 malformed: line 5 of the same transaction: wrong number of fields", "line 7: post [c 1]"},
		},
		"and where it cannot be told which, both sides are given up": {
			header + pair("1", "a", "1", "") + row("2", "a", "1", "") + "garb\"age\n" + pair("3", "b", "-1", "") + pair("4", "c", "1", ""),
			[]string{"line 2: post [a 1]", `line 4 malformed: line 5 of the same transaction: bare " in non-quoted`, `line 6 malformed: line 5, which may belong to the same transaction: bare " in non-quoted`, "line 8: post [c 1]"},
		},
		"garbage at the beginning": {
			header + "garb\"age\n" + pair("3", "b", "-1", "") + pair("4", "c", "1", ""),
			[]string{`line 2 malformed: bare " in non-quoted`, `line 3 malformed: line 2, which may belong to the same transaction: bare "`, "line 5: post [c 1]"},
		},
		"bad names": {
			header + row("1", "a::b", "1", "") + row("2", "a", "1", strings.Repeat("E", 65)) + row("", "a", "1", "") + pair("3", "/", "1", "") + pair("4", "c", "1", ""),
			[]string{"line 2 malformed: account \"a::b\": a level has no name", "line 3 malformed: commodity", "line 5 malformed: line 4, which may belong", "line 7: post [c 1]"},
		},
		"only the columns that are needed": {
			"commodity,amount,account,txnidx\n$,5,a,1\n$,-5,b,1\n",
			[]string{"line 2: post [a 5 $] [b -5 $]"},
		},
		"a byte order mark": {
			"\uFEFF" + header + pair("1", "a", "1", ""),
			[]string{"line 2: post [a 1] [o -1]"},
		},
		"ends of lines as on Windows": {
			strings.ReplaceAll(header+pair("1", "a", "1", ""), "\n", "\r\n"),
			[]string{"line 2: post [a 1] [o -1]"},
		},
		"nothing": {header, nil},

		"one commodity for another": {
			header + row("1", "a", "10", "$") + row("1", "b", "-9.20", "EUR"),
			[]string{"line 2: post [a 10 $] [b -9.20 EUR]"},
		},
		"cut between two postings": {
			header + pair("1", "a", "1", "") + row("2", "a", "100.00", "EUR"),
			[]string{"line 2: post", "line 4 malformed: the transaction does not balance, 100.00 EUR is left"},
		},
		"money for nothing": {
			header + row("1", "a", "1", "$") + row("1", "b", "1", "EUR") + row("2", "[a]", "1", "") + row("2", "b", "-1", ""),
			[]string{"line 2 malformed: the transaction does not balance, 1 $ and 1 EUR is left", "line 4 malformed: the transaction does not balance"},
		},
		"cut in a field without quotes": {
			"txnidx,account,amount,commodity\n1,a,5,EUR\n1,b,-5,EU",
			[]string{"line 2 malformed: line 3 of the same transaction: the line has no end: the input was cut"},
		},
		"cut before the last line's end": {
			header + strings.TrimSuffix(pair("1", "a", "1", ""), "\n"),
			[]string{"line 2: post"},
		},
		"cut within quotes": {
			header + pair("1", "a", "1", "") + strings.TrimSuffix(pair("2", "a", "1", ""), "\"\"\n"),
			[]string{"line 2: post", "line 4 malformed: line 5 of the same transaction: the line has no end: the input was cut"},
		},
		"cut within quotes, behind the end of a line": {
			header + pair("1", "a", "1", "") + "\"2\",\"2024-01-01\",\"\",\"\",\"\",\"what\n",
			[]string{"line 2: post", "line 4 malformed: the line has no end: the input was cut"},
		},
		"a bare quote in the last line": {
			header + pair("1", "a", "1", "") + "garb\"age\n",
			[]string{"line 2 malformed: line 4 of the same transaction: bare"},
		},
		"transactions of two files": {
			header + pair("1", "a", "1", "") + pair("2", "a", "2", "") + pair("1", "b", "3", "") + strings.ReplaceAll(pair("1", "c", "4", ""), "2024", "2025"),
			[]string{"line 2: post", "line 4: post", "line 6 malformed: line 8 of the same transaction: it has another date or description"},
		},
		"a transaction twice": {
			header + pair("1", "a", "1", "") + pair("2", "a", "2", "") + pair("1", "a", "1", ""),
			[]string{"line 2: post", "line 4: post", "line 6 malformed: txnidx 1 was used before, in line 2"},
		},
		"other bytes than UTF-8": {
			header + pair("1", "Caf\xe9", "1", "") + pair("2", "a", "1", "\x80") + strings.ReplaceAll(pair("3", "a", "1", ""), "what", "caf\xe9") + strings.ReplaceAll(pair("4", "a", "1", ""), "what", "a\x00") + pair("5", "a", "1", ""),
			[]string{"line 2 malformed: account \"Caf\\xe9\": not UTF-8", "line 4 malformed: commodity \"\\x80\": not UTF-8", "line 6 malformed: not UTF-8", "line 8 malformed: has a NUL", "line 10: post"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []io.Reader{iotest.HalfReader(strings.NewReader(c.input)), strings.NewReader(c.input)} {
				lines, end := told(feed.NewHledger(r, ""))
				require.Equal(t, io.EOF, end)
				require.Len(t, lines, len(c.want), strings.Join(lines, "\n"))
				for i, want := range c.want {
					assert.Contains(t, lines[i], want)
				}
			}
		})
	}
}

// What cannot be gone on with ends the input.
func TestHledgerThatEndsInTheMiddle(t *testing.T) {
	for name, c := range map[string]struct{ input, want string }{
		"a second header":  {header + pair("1", "a", "1", "") + header + pair("1", "a", "1", ""), "line 4: a second header"},
		"a quote for ever": {header + pair("1", "a", "1", "") + `"2` + strings.Repeat("x\n", 1<<20), "a line is longer than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			lines, end := told(feed.NewHledger(strings.NewReader(c.input), ""))
			require.ErrorContains(t, end, c.want)
			require.LessOrEqual(t, len(lines), 1)
		})
	}
}

// What is malformed is kept as it stands in the input.
func TestHledgerKeepsTheText(t *testing.T) {
	bad := row("2", "a", "1", "") + row("2", "b", "one", "")
	source := feed.NewHledger(strings.NewReader(header+pair("1", "a", "1", "")+bad), "")
	_, err := source.Next()
	require.NoError(t, err)
	_, err = source.Next()
	malformed, ok := errors.AsType[*feed.Malformed](err)
	require.True(t, ok)
	assert.Equal(t, bad, malformed.Raw)
}

func TestNotHledger(t *testing.T) {
	for input, problem := range map[string]string{
		"":                        "the CSV is empty",
		"a,b,c\n1,2,3\n":          `no column "txnidx"`,
		"txnidx,account,amount\n": `no column "commodity"`,
		"txnidx,account,amount,commodity,amount\n1,a,5,EUR,6\n": `two columns "amount"`,
		"\"txnidx\"x,account\n":                                 "header of the CSV",
		`{"op":"end_of_day"}` + "\n":                            "header of the CSV",
	} {
		_, end := told(feed.NewHledger(strings.NewReader(input), ""))
		assert.ErrorContains(t, end, problem, input)
	}
}

// amounts reads the first of numbers in one commodity, beside some in another
// one, and returns it or why it was not read.
func amounts(t *testing.T, mark string, numbers, others []string) string {
	t.Helper()
	input := header
	for i, n := range numbers {
		input += row(fmt.Sprint(i+1), "(a)", n, "X")
	}
	for i, n := range others {
		input += row(fmt.Sprint(-i-1), "(a)", n, "OTHER")
	}
	item, err := feed.NewHledger(strings.NewReader(input), mark).Next()
	if err != nil {
		return err.Error()
	}
	return item.Message.Postings[0].Amount.String()
}

func TestAmounts(t *testing.T) {
	for text, want := range map[string]string{
		"0":                "0",
		"-1.50":            "-1.50",
		"+3":               "3",
		"1234,56":          "1234.56",
		"1,000.25":         "1000.25",
		"1.000,25":         "1000.25",
		"-1.234.567,8":     "-1234567.8",
		"1,234,567":        "1234567",
		"1,23,456":         "123456",
		"1 000.5":          "1000.5",
		"1\u00A0000,5":     "1000.5",
		"1'000.5":          "1000.5",
		"-12 34 567,50":    "-1234567.50",
		".5":               "0.5",
		"-,5":              "-0.5",
		"5.":               "5",
		"0.500":            "0.500",
		"-1234.567":        "-1234.567",
		"489.957000000000": "489.957000000000",
	} {
		assert.Equal(t, want, amounts(t, "", []string{text}, nil), text)
	}
	for _, text := range []string{"", "-", ".", "one", "1.000.25,5,5", "1,2.3,4", "1e5", "--1", "$1", "1-", "12,50,50", "1,2,3", "12 50", "5, 3", "1 2 3", "1_5", "- 5", "1 000 00", "1,000 000.5", "1 000,000.5",
		"+-5", "-+5", "1,,000.5", "1..000,5", ",1,000", "1,000,", "1,,000,000"} {
		assert.Contains(t, amounts(t, "", []string{text}, nil), "line 2: amount", text)
	}
}

// One thousand or one: what the other numbers of the input do not tell is
// refused.
func TestAmountsThatMayBeAThousandTimesAsMuch(t *testing.T) {
	const open = "line 2: amount"
	for name, c := range map[string]struct {
		mark            string
		numbers, others []string
		want            string
	}{
		"by itself":                             {"", []string{"1,000"}, nil, open},
		"by itself, with a point":               {"", []string{"-1.000"}, nil, open},
		"beside smaller ones":                   {"", []string{"100,500", "99", "20000"}, nil, open},
		"beside groups":                         {"", []string{"100,500", "1,234,567", "99"}, nil, "100500"},
		"beside groups with a point":            {"", []string{"100.500", "1.234.567"}, nil, "100500"},
		"beside groups and decimals":            {"", []string{"100,500", "1,234.5"}, nil, "100500"},
		"beside decimals":                       {"", []string{"1,500", "2,25"}, nil, "1.500"},
		"beside decimals with the other mark":   {"", []string{"1,500", "2.25"}, nil, "1500"},
		"beside groups of another kind":         {"", []string{"1.500", "1 000"}, nil, "1.500"},
		"beside both":                           {"", []string{"1,500", "2,25", "1,234,567"}, nil, open},
		"a point as in all others":              {"", []string{"1.500"}, []string{"2.25", "1000"}, "1.500"},
		"a point, others have commas too":       {"", []string{"1.500"}, []string{"2.25", "2,25"}, open},
		"a point, others have groups":           {"", []string{"1.500"}, []string{"1,000.25"}, open},
		"a point, others have groups of points": {"", []string{"1.500"}, []string{"1.000,25"}, open},
		"a comma as in all others":              {"", []string{"100,500"}, []string{"2,25"}, open},
		"a comma, others have groups":           {"", []string{"100,500"}, []string{"1,234,567"}, open},
		"the mark is given":                     {",", []string{"1,500"}, nil, "1.500"},
		"the other mark is given":               {".", []string{"1,500"}, nil, "1500"},
		"a mark that is not the given one":      {".", []string{"12,50"}, nil, open},
	} {
		got := amounts(t, c.mark, c.numbers, c.others)
		if c.want == open {
			assert.Contains(t, got, open, name)
			continue
		}
		assert.Equal(t, c.want, got, name)
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
	f.Add([]byte(`{"op":""}{`))
	f.Fuzz(func(t *testing.T, input []byte) {
		lines, end := told(feed.NewNDJSON(bytes.NewReader(input)))
		require.Equal(t, io.EOF, end)
		require.LessOrEqual(t, len(lines), bytes.Count(input, []byte("\n"))+1+bytes.Count(input, []byte("{")), "a line may have several objects")
	})
}

// Whatever the input, no text of it is lost: each data line is in a message or
// in what is malformed.
func FuzzHledger(f *testing.F) {
	f.Add([]byte(header + row("1", "a", "1", "") + row("2", "b", "x", "")))
	f.Add([]byte(header + "\"1\",\"\n\"\n,,\n"))
	f.Add([]byte("txnidx,account,amount,commodity\n1,a,1,\n\n1,\"b\"c,1,\n2,a,1,"))
	f.Fuzz(func(t *testing.T, input []byte) {
		source := feed.NewHledger(bytes.NewReader(input), "")
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

func FuzzAmounts(f *testing.F) {
	for _, text := range []string{"1,000.25", "1.000,25", "-,5", "1 000", "1.000.000", ",", "+1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsAny(text, "\"\r\n") {
			return
		}
		amount := amounts(t, ".", []string{text}, nil)
		if strings.Contains(amount, "line") {
			return
		}
		require.Equal(t, amount, amounts(t, ".", []string{amount}, nil), text)
	})
}
