package strictjson_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/strictjson"
)

type item struct {
	Name string `json:"name"`
}

var errMany = errors.New("too many items")

// read reads an object with a list of items, two at most.
func read(r io.Reader, known bool) (items []item, err error) {
	d := strictjson.NewDecoder(r, limits, known)
	err = d.Object(func(name string) error {
		if name != "items" {
			return d.Skip(name)
		}
		return d.Array(func(i int) error {
			if i == 2 {
				return errMany
			}
			items = append(items, item{})
			return d.Value(&items[i])
		})
	})
	if err == nil {
		err = d.End()
	}
	return items, err
}

func TestDecoder(t *testing.T) {
	for text, says := range map[string]string{
		`{}`:                                   "",
		`{"items":null}`:                       "",
		` {"items" : [ {"name":"a"} , {} ] } `: "",
		`{"items":[{"name":"a","name":"b"}]}`:  `"name" occurs twice`,
		`{"items":[],"items":[]}`:              `"items" occurs twice`,
		`{"items":[{"Name":"a"}]}`:             "has other characters",
		`{"items":[{"name":"\ud800"}]}`:        "half a surrogate pair",
		`{"items":[[[[[[]]]]]]}`:               "more than 4 deep",
		`{"items":[{},{},{}]}`:                 "too many items",
		`{"items":[{},{},nonsense`:             "too many items", // not read
		`{"items":{}}`:                         "not an array",
		`[]`:                                   "not an object",
		`{} {}`:                                "more text",
		`{"items":[`:                           "EOF",
		`{"items":[{"name":7}]}`:               "cannot unmarshal",
		``:                                     "EOF",
	} {
		for _, known := range []bool{false, true} {
			_, err := read(strings.NewReader(text), known)
			if says == "" {
				assert.NoError(t, err, text)
			} else {
				assert.ErrorContains(t, err, says, text)
			}
		}
	}
	for _, text := range []string{`{"new":{"x":[1]},"items":[]}`, `{"items":[{"new":1}]}`} {
		_, err := read(strings.NewReader(text), false)
		require.NoError(t, err)
		_, err = read(strings.NewReader(text), true)
		require.ErrorContains(t, err, `unknown field "new"`)
	}
	items, err := read(strings.NewReader(`{"items":[{"name":"a"},{"name":"b"}]}`), true)
	require.NoError(t, err)
	assert.Equal(t, []item{{"a"}, {"b"}}, items)
}
