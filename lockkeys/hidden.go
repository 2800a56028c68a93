package lockkeys

import "unicode"

// isHidden reports whether a character is written as "%XX" in the text of a key, since
// one does not see it, or not as what it is.
//
// Stores know a stream by its text. So the text of a key must never change, as it would
// with [unicode.IsPrint] whenever Unicode gets more characters, and with these the
// standard library. Characters that Unicode did not have when the table was made are not
// hidden.
func isHidden(r rune) bool {
	if r < 0x7F {
		return r < ' '
	}
	return r&0xFFFE == 0xFFFE || unicode.Is(hidden, r) // the first are no characters, in each plane
}

// hidden has what does not print in Unicode 15.0: control and format characters, spaces
// other than that of ASCII, separators, and what is for private use or no character.
var hidden = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x007F, 0x00A0, 1},
		{0x00AD, 0x00AD, 1},
		{0x0600, 0x0605, 1},
		{0x061C, 0x061C, 1},
		{0x06DD, 0x06DD, 1},
		{0x070F, 0x070F, 1},
		{0x0890, 0x0891, 1},
		{0x08E2, 0x08E2, 1},
		{0x1680, 0x1680, 1},
		{0x180E, 0x180E, 1},
		{0x2000, 0x200F, 1},
		{0x2028, 0x202F, 1},
		{0x205F, 0x206F, 1},
		{0x3000, 0x3000, 1},
		{0xD800, 0xF8FF, 1},
		{0xFDD0, 0xFDEF, 1},
		{0xFEFF, 0xFEFF, 1},
		{0xFFF9, 0xFFFB, 1},
	},
	R32: []unicode.Range32{
		{0x110BD, 0x110BD, 1},
		{0x110CD, 0x110CD, 1},
		{0x13430, 0x1343F, 1},
		{0x1BCA0, 0x1BCA3, 1},
		{0x1D173, 0x1D17A, 1},
		{0xE0001, 0xE0001, 1},
		{0xE0020, 0xE007F, 1},
		{0xF0000, 0x10FFFF, 1},
	},
	LatinOffset: 1,
}
