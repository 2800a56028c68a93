package book

import (
	"fmt"
	"io"
	"regexp"

	"github.com/shopspring/decimal"
)

// Amount is an exact decimal number.
type Amount struct{ decimal.Decimal }

// maxAmount keeps arithmetic cheap whatever the input says.
const maxAmount = 100

var amountForm = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)

// ParseAmount reads plain decimal notation such as "-12.50". There is no
// exponent, so that a short text is never a huge number.
func ParseAmount(text string) (Amount, error) {
	if len(text) > maxAmount {
		return Amount{}, fmt.Errorf("amount %.40q... is longer than %d characters", text, maxAmount)
	}
	if !amountForm.MatchString(text) {
		return Amount{}, fmt.Errorf("amount %q is not a decimal number: write it like \"-12.50\"", text)
	}
	d, err := decimal.NewFromString(text)
	if err != nil {
		return Amount{}, fmt.Errorf("amount %q: %w", text, err)
	}
	return Amount{d}, nil
}

// String writes the number in plain notation with all its decimal places, the
// zeros at the end too: an amount of money is "12.50".
func (a Amount) String() string { return a.StringFixed(max(-a.Exponent(), 0)) }

// Format writes the same as String for every verb.
func (a Amount) Format(f fmt.State, _ rune) { io.WriteString(f, a.String()) } // f keeps the error

// MarshalJSON writes a string, which keeps every digit in every JSON reader.
func (a Amount) MarshalJSON() ([]byte, error) { return []byte(`"` + a.String() + `"`), nil }

// UnmarshalJSON reads a string; see [Amount.MarshalJSON].
func (a *Amount) UnmarshalJSON(data []byte) (err error) {
	text := string(data)
	if len(text) < 2 || text[0] != '"' {
		return fmt.Errorf("amount %.40s is not a string: write it in quotes, like \"12.50\"", text)
	}
	*a, err = ParseAmount(text[1 : len(text)-1])
	return err
}

// Commodity is what an amount counts: a currency, a stock, or nothing.
type Commodity string

const maxCommodity = 64 // characters

// UnmarshalText reads the name of a commodity.
func (c *Commodity) UnmarshalText(text []byte) error {
	if err := checkName(string(text), maxCommodity); err != nil {
		return fmt.Errorf("commodity %.80q: %w", text, err)
	}
	*c = Commodity(text)
	return nil
}

// Money is an amount of a commodity.
type Money struct {
	Amount    Amount    `json:"amount"`
	Commodity Commodity `json:"commodity,omitempty"`
}

// String returns the amount and the commodity: "12.5 EUR".
func (m Money) String() string {
	if m.Commodity == "" {
		return m.Amount.String()
	}
	return m.Amount.String() + " " + string(m.Commodity)
}
