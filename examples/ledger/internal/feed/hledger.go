package feed

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
)

// hledger reads what "hledger print -O csv" writes: one posting a line, the
// postings of a transaction together and with the same txnidx.
//
// A transaction is applied whole or not at all, so a line that cannot be read
// takes its transaction with it. Where it cannot be told which one that is,
// the ones before and after it are both given up. A transaction that does not
// balance is not whole: the input was cut, or a line is missing.
//
// The input is read twice: first for how its numbers are written.
type hledger struct {
	input   io.Reader
	mark    string
	csv     *csv.Reader
	text    *recorder
	columns map[string]int
	styles  *styles
	seen    map[string]int // the lines of the transactions so far, by txnidx
	next    *row           // read ahead
	damage  error          // of a line just before next that may belong to its transaction
	end     error          // what ended the input
}

// row is one line of the input.
type row struct {
	line    int
	raw     string
	txnidx  string // "" if not even that can be read
	date    string
	note    string
	kind    kind
	posting book.Posting
	err     error
}

// kind is what a posting balances with.
type kind uint8

const (
	plain    kind = iota // the other plain ones
	balanced             // the other ones in square brackets
	alone                // nothing: it is in round ones
	kinds
)

// maxPiped bounds the bytes of an input that has to be kept since it cannot be
// read twice.
const maxPiped = 64 << 20

// NewHledger returns the source that reads what "hledger print -O csv" writes. A
// reader that is an [io.Seeker] is at its beginning, and is read twice.
// mark is the decimal mark, or "" if the numbers are to tell.
func NewHledger(r io.Reader, mark string) Source {
	return &hledger{input: r, mark: mark, seen: map[string]int{}}
}

// begin reads the input for the first time, and the header once more.
func (h *hledger) begin() error {
	again, ok := h.input.(io.ReadSeeker)
	if !ok {
		all, err := io.ReadAll(io.LimitReader(h.input, maxPiped+1))
		switch {
		case err != nil:
			return err
		case len(all) > maxPiped:
			return fmt.Errorf("the CSV has more than %d bytes: give it as a file, which can be read twice", maxPiped)
		}
		again = bytes.NewReader(all)
	}
	if err := h.open(again); err != nil {
		return err
	}
	h.styles = newStyles(h.mark)
	for {
		fields, err := h.csv.Read()
		h.text.take(h.csv.InputOffset())
		if _, syntax := errors.AsType[*csv.ParseError](err); syntax {
			continue
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		line, _ := h.csv.FieldPos(0)
		h.styles.see(line, fields[h.columns["commodity"]], fields[h.columns["amount"]])
	}
	if err := h.styles.check(); err != nil {
		return err
	}
	if _, err := again.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return h.open(again)
}

// open reads the header.
func (h *hledger) open(r io.Reader) error {
	buffered := bufio.NewReader(r)
	if begin, _ := buffered.Peek(len(byteOrderMark)); string(begin) == byteOrderMark {
		_, _ = buffered.Discard(len(begin)) // it is there
	}
	h.text = &recorder{r: buffered}
	h.csv = csv.NewReader(h.text)
	h.csv.ReuseRecord = true
	header, err := h.csv.Read()
	switch {
	case err == io.EOF:
		return errors.New("the CSV is empty, and has no header: it was cut, or not written yet")
	case err != nil:
		return fmt.Errorf("header of the CSV: %w", err)
	}
	h.text.take(h.csv.InputOffset())
	h.columns = map[string]int{}
	for i, name := range header {
		if _, again := h.columns[name]; again && slices.Contains(neededColumns, name) {
			return fmt.Errorf("the CSV has two columns %q: remove one", name)
		}
		h.columns[name] = i
	}
	for _, name := range neededColumns {
		if _, ok := h.columns[name]; !ok {
			return fmt.Errorf("the CSV has no column %q: make it with \"hledger print -O csv\"", name)
		}
	}
	return nil
}

// Next implements [Source].
func (h *hledger) Next() (Item, error) {
	if h.styles == nil && h.end == nil {
		if h.end = h.begin(); h.end == nil {
			h.advance()
		}
	}
	if h.next == nil {
		return Item{}, h.end
	}
	first := *h.next
	bad := h.damage
	var parts []Part
	h.damage = nil
	message := &book.Message{Op: book.Post, Note: first.note}
	var sums [kinds]balance
	for h.next != nil && (h.next.txnidx == first.txnidx || h.next.txnidx == "") {
		err := h.next.err
		if err == nil && (h.next.date != first.date || h.next.note != first.note) {
			err = errors.New("it has another date or description than the lines before it: is it of another file?")
		}
		if err != nil && bad == nil {
			bad = err
			if h.next.line != first.line {
				bad = fmt.Errorf("line %d of the same transaction: %w", h.next.line, bad)
			}
		}
		message.Postings = append(message.Postings, h.next.posting)
		sums[h.next.kind].add(h.next.posting.Money)
		parts = append(parts, Part{h.next.line, h.next.raw})
		last := *h.next
		h.advance()
		if last.txnidx == "" && h.next != nil && h.next.txnidx != first.txnidx {
			h.damage = fmt.Errorf("line %d, which may belong to the same transaction: %w", last.line, last.err)
		}
	}
	if line, again := h.seen[first.txnidx]; again && bad == nil {
		bad = fmt.Errorf("txnidx %s was used before, in line %d: give each file on its own", first.txnidx, line)
	}
	if first.txnidx != "" {
		h.seen[first.txnidx] = first.line
	}
	bad = cmp.Or(bad, sums[plain].check(), sums[balanced].check(), message.Validate())
	if bad != nil {
		return Item{}, &Malformed{first.line, textOf(parts), bad}
	}
	return Item{Line: first.line, Message: message, Parts: parts}, nil
}

func textOf(parts []Part) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

var neededColumns = []string{"txnidx", "account", "amount", "commodity"}

// advance reads the next row into h.next, or sets h.end.
func (h *hledger) advance() {
	fields, err := h.csv.Read()
	raw := h.text.take(h.csv.InputOffset())
	h.next = nil
	if err == nil {
		line, _ := h.csv.FieldPos(0)
		if fields[h.columns["txnidx"]] == "txnidx" {
			h.end = fmt.Errorf("line %d: a second header: another file begins here, and is not read: give each one on its own", line)
			return
		}
		h.next = h.parse(fields, line, raw)
		return
	}
	if syntax, ok := errors.AsType[*csv.ParseError](err); ok {
		err := syntax.Err
		if !strings.HasSuffix(raw, "\n") || errors.Is(err, csv.ErrQuote) && strings.Count(raw, `"`)%2 == 1 && h.text.atEnd() {
			err = fmt.Errorf("%w (%w)", errCut, err)
		}
		h.next = &row{line: syntax.StartLine, raw: raw, txnidx: salvage(raw), err: err}
		return
	}
	h.end = err
}

func (h *hledger) parse(fields []string, line int, raw string) *row {
	column := func(name string) string {
		if i, ok := h.columns[name]; ok {
			return strings.Clone(fields[i])
		}
		return ""
	}
	r := &row{line: line, raw: raw, txnidx: column("txnidx"), date: column("date"), note: column("description")}
	var name string
	name, r.kind = bare(column("account"))
	account, errAccount := book.ParseAccount(name)
	commodity := column("commodity")
	amount, errAmount := h.styles.parse(commodity, column("amount"))
	errCommodity := r.posting.Commodity.UnmarshalText([]byte(commodity))
	r.posting.Account, r.posting.Amount = account, amount
	r.err = errors.Join(errAccount, errAmount, errCommodity, book.CheckText(raw))
	switch {
	case r.txnidx == "":
		r.err = errors.Join(r.err, errors.New("txnidx is empty"))
	case !strings.HasSuffix(raw, "\n") && !strings.HasSuffix(raw, "\""):
		r.err = errors.Join(r.err, errCut)
	}
	return r
}

// bare takes off the brackets in which hledger writes the accounts of virtual
// postings.
func bare(account string) (string, kind) {
	for brackets, kind := range map[string]kind{"()": alone, "[]": balanced} {
		inner, open := strings.CutPrefix(account, brackets[:1])
		inner, closed := strings.CutSuffix(inner, brackets[1:])
		if open && closed {
			return inner, kind
		}
	}
	return account, plain
}

// balance adds up postings that are to balance.
type balance map[book.Commodity]decimal.Decimal

func (b *balance) add(m book.Money) {
	if *b == nil {
		*b = balance{}
	}
	(*b)[m.Commodity] = (*b)[m.Commodity].Add(m.Amount.Decimal)
}

// check reports whether something comes from nothing. Where one commodity is given
// for another one, the rate is not in the CSV.
func (b balance) check() error {
	more, less := false, false
	var left []string
	for _, c := range slices.Sorted(maps.Keys(b)) {
		if b[c].IsZero() {
			continue
		}
		more, less = more || b[c].IsPositive(), less || b[c].IsNegative()
		left = append(left, book.Money{Amount: book.Amount{Decimal: b[c]}, Commodity: c}.String())
	}
	if more == less {
		return nil
	}
	return fmt.Errorf("the transaction does not balance, %s is left: was the input cut, or is a posting missing?", strings.Join(left, " and "))
}

var firstField = regexp.MustCompile(`^"?([0-9]+)"?,`)

// salvage finds the txnidx of a line that is not CSV otherwise.
func salvage(raw string) string {
	if found := firstField.FindStringSubmatch(raw); found != nil {
		return found[1]
	}
	return ""
}

// recorder remembers what was read through it until it is taken, which is to be
// before it is too much.
type recorder struct {
	r     io.Reader
	text  []byte
	start int64 // where text begins in the input
	ended bool  // all of the input was read
}

// atEnd reports whether all of the input was read and taken.
func (t *recorder) atEnd() bool { return t.ended && len(t.text) == 0 }

// Read implements io.Reader.
func (t *recorder) Read(p []byte) (int, error) {
	if len(t.text) > maxLine {
		return 0, fmt.Errorf("a line is longer than %d bytes, from byte %d on: is a quote missing?", maxLine, t.start)
	}
	n, err := t.r.Read(p)
	t.text = append(t.text, p[:n]...)
	t.ended = err == io.EOF
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
