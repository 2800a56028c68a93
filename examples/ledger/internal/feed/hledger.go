package feed

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
)

// hledger reads what "hledger print -O csv" writes: one posting a line, the
// postings of a transaction together and with the same txnidx.
//
// A transaction is applied whole or not at all, so a line that cannot be read
// takes its transaction with it. Where it cannot be told which one that is,
// the ones before and after it are both given up.
type hledger struct {
	csv     *csv.Reader
	text    *recorder
	columns map[string]int
	next    *row  // read ahead
	damage  error // of a line just before next that may belong to its transaction
	end     error // what ended the input
}

// row is one line of the input.
type row struct {
	line    int
	raw     string
	txnidx  string // "" if not even that can be read
	note    string
	posting book.Posting
	err     error
}

// NewHledger returns the source that reads what "hledger print -O csv" writes.
func NewHledger(r io.Reader) Source {
	text := &recorder{r: r}
	c := csv.NewReader(text)
	c.ReuseRecord = true
	return &hledger{csv: c, text: text}
}

// Next implements [Source].
func (h *hledger) Next() (Item, error) {
	if h.columns == nil {
		if err := h.readHeader(); err != nil {
			return Item{}, err
		}
		h.advance()
	}
	if h.next == nil {
		return Item{}, h.end
	}
	first := *h.next
	bad, raw := h.damage, strings.Builder{}
	h.damage = nil
	message := &book.Message{Op: book.Post, ID: first.txnidx, Note: first.note}
	for h.next != nil && (h.next.txnidx == first.txnidx || h.next.txnidx == "") {
		if h.next.err != nil && bad == nil {
			bad = h.next.err
			if h.next.line != first.line {
				bad = fmt.Errorf("line %d of the same transaction: %w", h.next.line, bad)
			}
		}
		message.Postings = append(message.Postings, h.next.posting)
		raw.WriteString(h.next.raw)
		last := *h.next
		h.advance()
		if last.txnidx == "" && h.next != nil && h.next.txnidx != first.txnidx {
			h.damage = fmt.Errorf("line %d, which may belong to the same transaction: %w", last.line, last.err)
		}
	}
	if bad == nil {
		bad = message.Validate()
	}
	if bad != nil {
		return Item{}, &Malformed{first.line, raw.String(), bad}
	}
	return Item{first.line, message}, nil
}

var neededColumns = []string{"txnidx", "account", "amount", "commodity"}

func (h *hledger) readHeader() error {
	header, err := h.csv.Read()
	switch {
	case err == io.EOF:
		return err
	case err != nil:
		return fmt.Errorf("header of the CSV: %w", err)
	}
	h.text.take(h.csv.InputOffset())
	h.columns = map[string]int{}
	for i, name := range header {
		h.columns[strings.TrimPrefix(name, byteOrderMark)] = i
	}
	for _, name := range neededColumns {
		if _, ok := h.columns[name]; !ok {
			h.columns = nil
			return fmt.Errorf("the CSV has no column %q: make it with \"hledger print -O csv\"", name)
		}
	}
	return nil
}

// advance reads the next row into h.next, or sets h.end.
func (h *hledger) advance() {
	fields, err := h.csv.Read()
	raw := h.text.take(h.csv.InputOffset())
	h.next = nil
	if err == nil {
		line, _ := h.csv.FieldPos(0)
		h.next = h.parse(fields, line, raw)
		return
	}
	if syntax, ok := errors.AsType[*csv.ParseError](err); ok {
		h.next = &row{line: syntax.StartLine, raw: raw, txnidx: salvage(raw), err: syntax.Err}
		return
	}
	h.end = err
}

func (h *hledger) parse(fields []string, line int, raw string) *row {
	column := func(name string) string {
		if i, ok := h.columns[name]; ok {
			return fields[i]
		}
		return ""
	}
	r := &row{line: line, raw: raw, txnidx: column("txnidx"), note: strings.Clone(column("description"))}
	account, errAccount := book.ParseAccount(bare(column("account")))
	amount, errAmount := ParseHledgerAmount(column("amount"))
	commodity := column("commodity")
	errCommodity := r.posting.Commodity.UnmarshalText([]byte(commodity))
	r.posting.Account, r.posting.Amount = account, amount
	r.err = errors.Join(errAccount, errAmount, errCommodity)
	if r.txnidx == "" {
		r.err = errors.Join(r.err, errors.New("txnidx is empty"))
	}
	return r
}

// bare takes off the brackets in which hledger writes the accounts of virtual
// postings.
func bare(account string) string {
	for _, brackets := range []string{"()", "[]"} {
		inner, open := strings.CutPrefix(account, brackets[:1])
		inner, closed := strings.CutSuffix(inner, brackets[1:])
		if open && closed {
			return inner
		}
	}
	return account
}

var firstField = regexp.MustCompile(`^"?([0-9]+)"?,`)

// salvage finds the txnidx of a line that is not CSV otherwise.
func salvage(raw string) string {
	if found := firstField.FindStringSubmatch(raw); found != nil {
		return found[1]
	}
	return ""
}

// recorder remembers what was read through it until it is taken.
type recorder struct {
	r     io.Reader
	text  []byte
	start int64 // where text begins in the input
}

// Read implements io.Reader.
func (t *recorder) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.text = append(t.text, p[:n]...)
	return n, err
}

// take returns what was read since the last call, up to the given place in
// the input.
func (t *recorder) take(end int64) string {
	n := int(end - t.start)
	taken := string(t.text[:n])
	t.text = slices.Delete(t.text, 0, n)
	t.start = end
	return taken
}
