package postgres

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestWhatItDoes: however a statement is written, the server does the same.
func TestWhatItDoes(t *testing.T) {
	for query, want := range map[string]doing{
		"":                                 nothingElse,
		"; ;":                              nothingElse,
		"-- COMMIT":                        nothingElse,
		"/* COMMIT":                        nothingElse,
		"/*/ COMMIT */ SELECT 1":           nothingElse,
		"SELECT 1; COMMIT":                 nothingElse, // several statements: see single
		"(SELECT 'COMMIT')":                nothingElse,
		"COMMITS":                          nothingElse,
		"INSERT INTO t VALUES ('x')":       nothingElse,
		"SAVEPOINT a":                      nothingElse,
		"ROLLBACK TO a":                    nothingElse,
		"rollback/**/to/**/a":              nothingElse,
		"ROLLBACK WORK TO SAVEPOINT a":     nothingElse,
		"ROLLBACK -- to\nTRANSACTION TO a": nothingElse,
		"RELEASE a":                        nothingElse,
		"SET LOCAL work_mem = '1MB'":       nothingElse,
		"SET/*x*/LOCAL work_mem = '1MB'":   nothingElse,
		"set constraints all deferred":     nothingElse,
		"SET TRANSACTION READ ONLY":        nothingElse,
		"PREPARE p AS SELECT 1":            nothingElse,
		"COMMIT":                           endsTransaction,
		"  \t\n;; commit ;":                endsTransaction,
		"COMMIT;":                          endsTransaction,
		"COMMIT/**/":                       endsTransaction,
		"-- one\r COMMIT":                  endsTransaction,
		"COMMIT-- now":                     endsTransaction,
		"/* /* nested */ still */ COMMIT":  endsTransaction,
		"-- one\n/* two */ -- three\n; COMMIT WORK": endsTransaction,
		"End":                            endsTransaction,
		"ABORT":                          endsTransaction,
		"BEGIN":                          endsTransaction,
		"START TRANSACTION":              endsTransaction,
		"ROLLBACK":                       endsTransaction,
		"ROLLBACK/* TO */":               endsTransaction,
		"ROLLBACK -- TO a":               endsTransaction,
		"PREPARE/**/TRANSACTION 'x'":     endsTransaction,
		"SET work_mem = '1MB'":           outlastsTransaction,
		"SET/* LOCAL */work_mem = '1MB'": outlastsTransaction,
		"SET SESSION work_mem = '1MB'":   outlastsTransaction,
		"RESET/**/ALL":                   outlastsTransaction,
		"DISCARD ALL":                    outlastsTransaction,
		"LISTEN c":                       outlastsTransaction,
		"UNLISTEN *":                     outlastsTransaction,
	} {
		_, does := whatItDoes(query)
		assert.Equal(t, want, does, query)
	}
}

// FuzzWhatItDoes: comments before a statement change nothing.
func FuzzWhatItDoes(f *testing.F) {
	for _, query := range []string{"COMMIT", "SET/**/x = 1", "ROLLBACK TO a", "/* /* */", "--", "*/", "/"} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, query string) {
		word, does := whatItDoes(query)
		for _, before := range []string{" ", ";", "-- x\n", "/* x */", "/* /* x */ */"} {
			same, still := whatItDoes(before + query)
			assert.Equal(t, word, same, before)
			assert.Equal(t, does, still, before)
		}
	})
}
