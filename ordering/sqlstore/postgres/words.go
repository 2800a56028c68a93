package postgres

import (
	"strings"
	"unicode"
)

// doing is what a statement does beside reading and writing.
type doing uint8

const (
	nothingElse         doing = iota
	endsTransaction           // or begins one
	outlastsTransaction       // it changes the connection, for the effects that follow as well
)

// whatItDoes tells by the beginning of a text what its first statement does, and returns
// the first word. What a function does, set_config for example, it cannot tell.
func whatItDoes(query string) (word string, does doing) {
	words := firstWords(query)
	switch word = words[0]; word {
	case "BEGIN", "START", "COMMIT", "END", "ABORT":
		return word, endsTransaction
	case "ROLLBACK":
		if words[1] != "TO" && words[2] != "TO" { // WORK or TRANSACTION may be before it
			return word, endsTransaction
		}
	case "PREPARE":
		if words[1] == "TRANSACTION" {
			return word, endsTransaction
		}
	case "SET":
		if words[1] != "LOCAL" && words[1] != "CONSTRAINTS" && words[1] != "TRANSACTION" {
			return word, outlastsTransaction
		}
	case "RESET", "DISCARD", "LISTEN", "UNLISTEN":
		return word, outlastsTransaction
	}
	return word, nothingElse
}

// firstWords returns the first words of a text in capitals, up to something else than a
// word. What stands for a space, such as a comment, and empty statements are passed over.
func firstWords(query string) (words [3]string) {
	for i := range words {
		query = afterSpace(query, i == 0)
		end := strings.IndexFunc(query, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		if end < 0 {
			end = len(query)
		}
		if end == 0 {
			break
		}
		words[i], query = strings.ToUpper(query[:end]), query[end:]
	}
	return words
}

// afterSpace returns a text from the first character on that is not space or in a comment,
// or, if empty statements are passed over too, a semicolon.
func afterSpace(query string, empty bool) string {
	for query != "" {
		switch {
		case strings.HasPrefix(query, "--"):
			query = strings.TrimLeftFunc(query, func(r rune) bool { return r != '\n' && r != '\r' }) // either ends it
		case strings.HasPrefix(query, "/*"):
			query = afterComment(query)
		case strings.ContainsRune(" \t\r\n\f\v", rune(query[0])), empty && query[0] == ';':
			query = query[1:]
		default:
			return query
		}
	}
	return query
}

// afterComment returns what follows the comment that a text begins with. PostgreSQL has
// comments in comments.
func afterComment(query string) string {
	depth := 0
	for i := 0; i+1 < len(query); i++ {
		switch query[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			depth--
			i++
		}
		if depth == 0 {
			return query[i+1:]
		}
	}
	return ""
}
