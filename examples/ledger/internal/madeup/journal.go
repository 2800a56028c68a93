package madeup

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/feed"
)

// WriteJournal writes the messages of a source as an hledger journal: what
// they move as virtual postings, and what they expect as balance assertions,
// so that hledger itself checks them. Messages that must be rejected are left
// out, and so is what a journal cannot say: expectations on the whole book and
// those with a tolerance.
func WriteJournal(w io.Writer, source feed.Source) error {
	j := &journal{w: bufio.NewWriter(w), day: time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)}
	fmt.Fprint(j.w, "decimal-mark .\n")
	for {
		item, err := source.Next()
		if err == io.EOF {
			return j.w.Flush()
		}
		if err != nil {
			return err
		}
		j.write(item)
	}
}

type journal struct {
	w   *bufio.Writer // remembers the first error until Flush
	day time.Time
}

func (j *journal) write(item feed.Item) {
	m := item.Message
	if m.Reject {
		return
	}
	if m.Op == book.EndOfDay {
		j.day = j.day.AddDate(0, 0, 1)
	}
	asserted := m.Expect[:0:0]
	for _, e := range m.Expect {
		if e.Account != book.Root && e.Tolerance.IsZero() {
			asserted = append(asserted, e)
		}
	}
	moves := m.Moves()
	if len(moves)+len(asserted) == 0 {
		return
	}
	fmt.Fprintf(j.w, "\n%s %s  ; message %d\n", j.day.Format(time.DateOnly), m.Op, item.Line)
	for _, p := range moves {
		fmt.Fprintf(j.w, "    (%s)  %s\n", p.Account, quoted(p.Money))
	}
	for _, e := range asserted {
		sign := "="
		if e.Scope == book.Subtree {
			sign = "=*"
		}
		zero := book.Money{Commodity: e.Commodity}
		fmt.Fprintf(j.w, "    (%s)  %s %s %s\n", e.Account, quoted(zero), sign, quoted(book.Money{Amount: e.Balance, Commodity: e.Commodity}))
	}
}

// quoted writes money with the commodity in quotes, in which hledger takes any
// symbol.
func quoted(m book.Money) string {
	if m.Commodity == "" {
		return m.Amount.String()
	}
	return fmt.Sprintf("%s %q", m.Amount, string(m.Commodity))
}
