package lockkeys_test

import (
	"fmt"
	"hash/fnv"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
)

// TestTextForEver: the text of a key is what a database knows it by. If this fails, streams
// with such a character would begin anew, at number 1.
func TestTextForEver(t *testing.T) {
	sum := fnv.New64a()
	hidden := 0
	for r := rune(1); r <= unicode.MaxRune; r++ {
		key, err := lockkeys.New(string(r))
		require.NoError(t, err)
		text := key.String()
		if text != string(r) {
			hidden++
		}
		fmt.Fprintln(sum, text)
		again, err := lockkeys.Parse(text)
		require.NoError(t, err)
		require.Equal(t, key, again)
	}
	assert.Equal(t, 137_789, hidden)
	assert.Equal(t, "2ce5e42f1fd0f047", fmt.Sprintf("%x", sum.Sum64()))
}

// What prints is written as it is, also with the Unicode of a later Go.
func TestWhatPrintsIsWrittenAsItIs(t *testing.T) {
	for r := ' '; r <= unicode.MaxRune; r++ {
		if key, _ := lockkeys.New(string(r)); unicode.IsPrint(r) && r != '/' && r != '%' {
			require.Equal(t, string(r), key.String(), "%U", r)
		}
	}
	for name, r := range map[string]rune{
		"a line break": '\n', "a tab": '\t', "delete": 0x7F, "a control character": 0x85, "a space that does not break": 0xA0,
		"a soft hyphen": 0xAD, "a space of no width": 0x200B, "from right to left": 0x202E, "a byte order mark": 0xFEFF,
		"private use": 0xE000, "a tag": 0xE0041, "no character": 0xFFFE,
	} {
		key, err := lockkeys.New(string(r))
		require.NoError(t, err)
		assert.Regexp(t, `^(%[0-9A-F]{2})+$`, key.String(), name)
	}
}
