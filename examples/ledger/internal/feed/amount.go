package feed

import (
	"fmt"
	"strings"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
)

// ParseHledgerAmount reads a number as hledger writes it: with a point or a
// comma as decimal mark, with or without marks between groups of digits, and
// with a sign. A single point or comma is the decimal mark, as hledger itself
// reads it; several of the same kind stand between groups.
func ParseHledgerAmount(text string) (book.Amount, error) {
	plain := strings.Map(func(r rune) rune {
		switch r {
		case ' ', '\u00A0', '\u202F', '\u2009', '_', '\'': // between groups
			return -1
		}
		return r
	}, text)
	plain = strings.TrimPrefix(plain, "+")
	points, commas := strings.Count(plain, "."), strings.Count(plain, ",")
	mark := ""
	switch {
	case points > 0 && commas > 0: // the last one is the decimal mark
		mark = plain[strings.LastIndexAny(plain, ".,"):][:1]
	case points == 1:
		mark = "."
	case commas == 1:
		mark = ","
	}
	whole, fraction := plain, ""
	if mark != "" {
		var found bool
		whole, fraction, found = cutLast(plain, mark)
		if !found || strings.ContainsAny(fraction, ".,") {
			return book.Amount{}, fmt.Errorf("amount %.40q has its decimal mark in an odd place", text)
		}
		if strings.Contains(whole, mark) {
			return book.Amount{}, fmt.Errorf("amount %.40q has two decimal marks", text)
		}
	}
	whole = strings.NewReplacer(".", "", ",", "").Replace(whole)
	switch whole {
	case "", "-":
		whole += "0" // as in ".5"
		if fraction == "" {
			return book.Amount{}, fmt.Errorf("amount %.40q has no digits", text)
		}
	}
	if fraction != "" {
		whole += "." + fraction
	}
	return book.ParseAmount(whole)
}

func cutLast(text, mark string) (before, after string, found bool) {
	i := strings.LastIndex(text, mark)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(mark):], true
}
