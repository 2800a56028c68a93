package feed

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
)

// styles tell how the numbers of an input are written. hledger writes the amounts
// of a commodity alike, with a point or a comma as decimal mark, and older ones of
// it with marks between groups of digits. A number such as 1,000 or 1.000 by itself
// may be the one or the other, a thousand times as much; the other numbers say
// which:
//
//   - those of the same commodity, if a mark has one certain meaning in them;
//   - for a point, all others, if they have no marks between groups and no comma.
//
// What they leave open is refused, unless the decimal mark is given. Then the whole
// input is: once the mark is known, more of it can be read, and what was applied must
// still be its beginning.
type styles struct {
	given int               // the place of the decimal mark, -1 if it is not given
	of    map[string]*style // by commodity
	all   style
}

// style is what numbers have in them for certain.
type style struct {
	decimal, group [2]bool       // by mark: as a decimal mark, and between groups
	spaced         bool          // something else between groups
	unsure         [2]seenNumber // by mark: the first in which it may be either
}

// seenNumber is a number and where it stands; the zero value is none.
type seenNumber struct {
	line int
	text string
}

const marks = ".," // their places are those in a style

// newStyles returns styles of which the decimal mark is given, or "".
func newStyles(mark string) *styles {
	s := &styles{given: -1, of: map[string]*style{}}
	if mark != "" {
		s.given = strings.Index(marks, mark)
	}
	return s
}

// number is the text of an amount, taken apart.
type number struct {
	sign    string
	digits  string // with the marks
	spaced  bool
	mark    int  // of the last mark, -1 for none
	certain bool // whether that is the decimal mark is certain
	decimal bool // it is
	both    bool // the other mark is between groups before it
}

func read(text string) number {
	n := number{mark: -1}
	n.digits = strings.Map(func(r rune) rune {
		switch r {
		case ' ', '\u00A0', '\u202F', '\u2009', '_', '\'': // between groups
			n.spaced = true
			return -1
		}
		return r
	}, text)
	if rest, negative := strings.CutPrefix(n.digits, "-"); negative {
		n.sign, n.digits = "-", rest
	} else {
		n.digits = strings.TrimPrefix(n.digits, "+")
	}
	at := strings.LastIndexAny(n.digits, marks)
	if at < 0 {
		return n
	}
	n.mark = strings.IndexByte(marks, n.digits[at])
	whole, fraction := n.digits[:at], n.digits[at+1:]
	switch same := strings.Contains(whole, n.digits[at:at+1]); {
	case same: // several of a kind stand between groups
		n.certain = true
	case strings.ContainsAny(whole, marks): // of two kinds the last one is the decimal mark
		n.certain, n.decimal, n.both = true, true, true
	default:
		n.certain = n.spaced || len(fraction) != 3 || len(whole) == 0 || len(whole) > 3 || whole[0] == '0'
		n.decimal = n.certain
	}
	return n
}

// see takes a number of the input.
func (s *styles) see(line int, commodity, text string) {
	n := read(text)
	own := s.of[commodity]
	if own == nil {
		own = &style{}
		s.of[strings.Clone(commodity)] = own
	}
	if n.mark >= 0 && !n.certain && own.unsure[n.mark].line == 0 {
		own.unsure[n.mark] = seenNumber{line, strings.Clone(text)}
	}
	for _, st := range []*style{own, &s.all} {
		st.spaced = st.spaced || n.spaced
		if n.certain {
			st.decimal[n.mark] = st.decimal[n.mark] || n.decimal
			st.group[n.mark] = st.group[n.mark] || !n.decimal
			st.group[1-n.mark] = st.group[1-n.mark] || n.both
		}
	}
}

// check returns an error for the first number that all of them leave open.
func (s *styles) check() error {
	var first seenNumber
	for commodity, own := range s.of {
		for mark, n := range own.unsure {
			if _, ok := s.isDecimal(commodity, mark); !ok && n.line > 0 && (first.line == 0 || n.line < first.line) {
				first = n
			}
		}
	}
	if first.line == 0 {
		return nil
	}
	return fmt.Errorf("line %d: amount %.40q: %w; nothing is applied before that is known", first.line, first.text, errOpen)
}

// isDecimal reports whether the mark of a number that is not certain by itself is
// the decimal one.
func (s *styles) isDecimal(commodity string, mark int) (decimal, ok bool) {
	own, all := s.of[commodity], &s.all
	if own == nil {
		own = &style{}
	}
	switch {
	case s.given >= 0:
		return mark == s.given, true
	case own.decimal[mark] && own.group[mark]:
		return false, false
	case own.decimal[mark]:
		return true, true
	case own.group[mark], own.decimal[1-mark]:
		return false, true
	case own.group[1-mark], own.spaced:
		return true, true
	}
	return true, mark == 0 && all.decimal[0] && !all.decimal[1] && !all.group[0] && !all.group[1] && !all.spaced
}

// spacedForm is that of a number with something else than marks between its groups:
// such as 1 234 567.50, and not 12 50, which may be two numbers.
var spacedForm = regexp.MustCompile(`^[-+]?[0-9]+([ \x{A0}\x{202F}\x{2009}_'][0-9]{2,3})*[ \x{A0}\x{202F}\x{2009}_'][0-9]{3}([.,][0-9]*)?$`)

var errOpen = errors.New("the other numbers do not say whether its mark is the decimal one or stands between groups, a thousand times as much: " +
	"say which with -decimal-mark")

// parse reads an amount.
func (s *styles) parse(commodity, text string) (book.Amount, error) {
	n := read(text)
	if n.spaced && !spacedForm.MatchString(text) {
		return book.Amount{}, fmt.Errorf("amount %.40q has a space in an odd place", text)
	}
	decimal := n.decimal
	if n.mark >= 0 && (!n.certain || s.given >= 0 && n.decimal) {
		var ok bool
		if decimal, ok = s.isDecimal(commodity, n.mark); !ok {
			return book.Amount{}, fmt.Errorf("amount %.40q: %w", text, errOpen)
		}
	}
	whole, fraction := n.digits, ""
	if decimal {
		at := strings.LastIndexAny(n.digits, marks)
		whole, fraction = n.digits[:at], n.digits[at+1:]
		if whole == "" && fraction == "" {
			return book.Amount{}, fmt.Errorf("amount %.40q has no digits", text)
		}
		if whole == "" {
			whole = "0" // as in ".5"
		}
	}
	if strings.Contains(whole, ".") && strings.Contains(whole, ",") {
		return book.Amount{}, fmt.Errorf("amount %.40q has a mark in an odd place", text)
	}
	groups := strings.Split(strings.ReplaceAll(whole, ",", "."), ".")
	for i, g := range groups {
		if g == "" && len(groups) > 1 || i > 0 && len(g) < 2 || i > 0 && i == len(groups)-1 && len(g) < 3 {
			return book.Amount{}, fmt.Errorf("amount %.40q has a mark in an odd place", text)
		}
	}
	plain := n.sign + strings.Join(groups, "")
	if fraction != "" {
		plain += "." + fraction
	}
	amount, err := book.ParseAmount(plain)
	if err != nil || strings.HasPrefix(n.digits, "-") { // a second sign
		return book.Amount{}, fmt.Errorf("amount %.40q is not a decimal number", text)
	}
	return amount, nil
}
