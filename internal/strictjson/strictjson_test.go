package strictjson_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/strictjson"
)

var limits = strictjson.Limits{Depth: 4, Members: 20, Texts: "headers"}

func TestCheck(t *testing.T) {
	many := func(n int) string {
		var members []string
		for i := range n {
			members = append(members, fmt.Sprintf(`"m%d":%d`, i, i))
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	for text, says := range map[string]string{
		`{"a":1,"b_2":[1,-2.5e7,true,false,null,"x"],"c":{}}`: "",
		" [ ] ":                               "",
		`7`:                                   "",
		`"x"`:                                 "",
		` { "a" : [ 1 , 2 ] } `:               "",
		`[[[[1]]]]`:                           "",
		`"\ud83d\ude00 \\ \" \u00e6"`:         "",
		`{"headers":{"A":"x","a":"y","ß":1}}`: "",
		many(20):                              "",
		"[" + strings.TrimSuffix(strings.Repeat("1,", 20), ",") + "]": "",

		``:                           "unexpected end",
		`{`:                          "unexpected end",
		`{"a":1}}`:                   "after top-level value",
		`{"a" 1}`:                    "after object key",
		`[01]`:                       "after array element",
		"\"\xff\"":                   "not UTF-8",
		`"\ud83d"`:                   "half a surrogate pair, at byte 1",
		`"\ude00\ud83d"`:             "half a surrogate pair",
		`"\ud83dx\ude00"`:            "half a surrogate pair",
		`{"\ud83d":1}`:               "half a surrogate pair",
		`{"headers":{"a":"\udfff"}}`: "half a surrogate pair",
		`[[[[[1]]]]]`:                "more than 4 deep, at byte 4",
		`[[[[{}]]]]`:                 "more than 4 deep",
		many(21):                     "more than 20 members",
		"[" + strings.TrimSuffix(strings.Repeat("{},", 21), ",") + "]": "more than 20 elements",
		`{"a":1,"a":1}`:                 `"a" occurs twice`,
		`{"a":1,"\u0061":1}`:            `"a" occurs twice`,
		`{"a":[{"b":1,"b":2}]}`:         `"b" occurs twice`,
		`{"headers":{"A":"x","A":"y"}}`: `"A" occurs twice`,
		`{"headers":{},"headers":{}}`:   `"headers" occurs twice`,
		strings.TrimSuffix(many(20), "}")[:len(many(20))-len(`,"m19":19}`)] + `,"m18":1}`: `"m18" occurs twice`,
		`{"Positions":1}`:           `"Positions" has other characters`,
		`{"po\u017fitions":1}`:      "has other characters", // a long s, which folds to s
		`{"headers":{"x":{"A":1}}}`: `"A" has other characters`,
		`{"Headers":{"A":1}}`:       `"Headers" has other characters`,
	} {
		err := strictjson.Check([]byte(text), limits)
		if says == "" {
			assert.NoError(t, err, text)
		} else {
			assert.ErrorContains(t, err, says, "%q", text)
		}
	}
}

func TestLargeTextsCostNothing(t *testing.T) {
	deep := []byte(strings.Repeat("[", 1000) + strings.Repeat("]", 1000))
	require.Error(t, strictjson.Check(deep, limits))
	long := []byte(`["` + strings.Repeat("x", 1<<20) + `"]`)
	assert.LessOrEqual(t, testing.AllocsPerRun(10, func() { _ = strictjson.Check(long, limits) }), 3.0)
}

// FuzzCheck: what is found good is valid JSON that encoding/json reads and
// writes without a change, and nothing makes Check panic.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"\ud83d\ude00"]}`, `{"headers":{"A":"\u0000"}}`, `[`, `"\u00`, `{"a":1,"a":2}`, `  7 `, `{"":""}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if strictjson.Check(data, limits) != nil {
			return
		}
		var value, again any
		require.NoError(t, json.Unmarshal(data, &value))
		text, err := json.Marshal(value)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &again))
		assert.Equal(t, value, again)
		assert.Equal(t, strings.Contains(string(data), "\uFFFD") || strings.Contains(strings.ToLower(string(data)), `\ufffd`), strings.Contains(fmt.Sprint(value), "\uFFFD"))
	})
}
