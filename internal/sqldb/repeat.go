package sqldb

import (
	"strconv"
	"strings"
)

// Repeat returns n copies of part, separated by commas, with its question marks
// in the form of the database. SQLite understands the $1 of PostgreSQL as well,
// but takes time square in the number of them.
func Repeat(d Dialect, n int, part string) string {
	text := strings.TrimSuffix(strings.Repeat(part+", ", n), ", ")
	if d == SQLite {
		return text
	}
	var b strings.Builder
	for i := 1; ; i++ {
		before, after, found := strings.Cut(text, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(i))
		text = after
	}
}
