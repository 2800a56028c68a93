package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/feed"
	"github.com/interlock-go/interlock/examples/ledger/internal/madeup"
)

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(messageSchema))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("message.schema.json", document))
	schema, err := compiler.Compile("message.schema.json")
	require.NoError(t, err)
	return schema
}

func validates(t *testing.T, schema *jsonschema.Schema, text string) bool {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	require.NoError(t, err, text)
	return schema.Validate(value) == nil
}

func TestMadeUpMessagesFollowTheSchema(t *testing.T) {
	t.Parallel()
	schema := compileSchema(t)
	var out bytes.Buffer
	require.NoError(t, feed.WriteNDJSON(&out, madeup.New(5000, 1)))
	for line := range strings.Lines(out.String()) {
		require.True(t, validates(t, schema, line), line)
	}
}

// The lines that README.md shows are messages.
func TestREADMEMessages(t *testing.T) {
	schema := compileSchema(t)
	_, rest, found := strings.Cut(readFile(t, "README.md"), "```json\n")
	require.True(t, found)
	shown, _, _ := strings.Cut(rest, "```")
	ops := map[book.Op]bool{}
	for line := range strings.Lines(shown) {
		m, err := book.Decode([]byte(line))
		require.NoError(t, err, line)
		assert.True(t, validates(t, schema, line), line)
		ops[m.Op] = true
	}
	assert.Len(t, ops, len(book.Ops()), "one line for each operation")
}

// The schema and the program agree about what a message is. The last few are
// what a schema cannot say.
func TestSchemaAndProgramAgree(t *testing.T) {
	schema := compileSchema(t)
	for text, good := range map[string]bool{
		`{"op":"open","account":"client:42:account:7","id":"x","note":"hello"}`: true,
		`{"op":"open","account":"client:42:account:7","id":""}`:                 false,
		`{"op":"open"}`:                                               false,
		`{"op":"open","account":""}`:                                  false,
		`{"op":"open","account":"/"}`:                                 false,
		`{"op":"open","account":"a::b"}`:                              false,
		`{"op":"open","account":"a:"}`:                                false,
		`{"op":"open","account":"` + strings.Repeat("a:", 63) + `a"}`: true,
		`{"op":"open","account":"` + strings.Repeat("a:", 64) + `a"}`: false,
		`{"op":"open","account":"` + strings.Repeat("é", 512) + `"}`:  true,
		`{"op":"open","account":"` + strings.Repeat("é", 513) + `"}`:  false,
		`{"op":"open","account":"a","commodity":""}`:                  false,
		`{"op":"open","account":"a","Account":"a"}`:                   false,
		`{"op":"open","account":null}`:                                false,
		`{"op":"steal"}`:                                              false,
		`{}`:                                                          false,
		`[]`:                                                          false,
		`{"op":"post","postings":[{"account":"a","amount":"-1.50","commodity":"$"}]}`:               true,
		`{"op":"post","postings":[{"account":"a","amount":"0"}]}`:                                   true,
		`{"op":"post","postings":[]}`:                                                               false,
		`{"op":"post"}`:                                                                             false,
		`{"op":"post","postings":[{"account":"a"}]}`:                                                false,
		`{"op":"post","postings":[{"account":"/","amount":"1"}]}`:                                   false,
		`{"op":"post","postings":[{"account":"a","amount":1}]}`:                                     false,
		`{"op":"post","postings":[{"account":"a","amount":"1e3"}]}`:                                 false,
		`{"op":"post","postings":[{"account":"a","amount":"1."}]}`:                                  false,
		`{"op":"post","postings":[{"account":"a","amount":"` + strings.Repeat("1", 101) + `"}]}`:    false,
		`{"op":"post","expect":[{"account":"a","balance":"1"}]}`:                                    true,
		`{"op":"post","expect":[{"account":"a","balance":"1","scope":"own","tolerance":"0.10"}]}`:   true,
		`{"op":"post","expect":[{"account":"a","balance":"1","tolerance":"-0.10"}]}`:                false,
		`{"op":"post","expect":[{"account":"a","balance":"1","scope":"all"}]}`:                      false,
		`{"op":"post","expect":[{"account":"/","balance":"1","scope":"subtree"}]}`:                  true,
		`{"op":"post","expect":[{"account":"/","balance":"1"}]}`:                                    false,
		`{"op":"post","reject":true,"expect":[{"account":"a","balance":"1"}]}`:                      false,
		`{"op":"post","reject":false,"expect":[{"account":"a","balance":"1"}]}`:                     true,
		`{"op":"deposit","account":"a","amount":"0.01","commodity":"EUR"}`:                          true,
		`{"op":"deposit","account":"a","amount":"0.00"}`:                                            false,
		`{"op":"deposit","account":"a","amount":"-1"}`:                                              false,
		`{"op":"deposit","account":"a"}`:                                                            false,
		`{"op":"deposit","account":"a","amount":"1","client":"b"}`:                                  false,
		`{"op":"deposit","account":"a","amount":"1","commodity":"a\tb"}`:                            false,
		`{"op":"deposit","account":"a","amount":"1","commodity":"` + strings.Repeat("E", 65) + `"}`: false,
		`{"op":"withdraw","account":"a","amount":"1","reject":true}`:                                true,
		`{"op":"withdraw","account":"a","amount":"1","reject":"yes"}`:                               false,
		`{"op":"transfer","from":"a","to":"b","amount":"1"}`:                                        true,
		`{"op":"transfer","from":"a","amount":"1"}`:                                                 false,
		`{"op":"transfer","from":"a","to":"b","amount":"1","account":"c"}`:                          false,
		`{"op":"convert","from":"a","to":"b","amount":"1","gets":{"amount":"2"}}`:                   true,
		`{"op":"convert","from":"a","to":"b","amount":"1"}`:                                         false,
		`{"op":"convert","from":"a","to":"b","amount":"1","gets":{"amount":"0"}}`:                   false,
		`{"op":"convert","from":"a","to":"b","amount":"1","gets":{"amount":"2","x":1}}`:             false,
		`{"op":"buying_power","client":"a"}`:                                                        true,
		`{"op":"buying_power","client":"a","at_least":{"amount":"1"}}`:                              false,
		`{"op":"credit_check","client":"a","at_least":{"amount":"1","commodity":"EUR"}}`:            true,
		`{"op":"credit_check","client":"a"}`:                                                        false,
		`{"op":"close_client","client":"a"}`:                                                        true,
		`{"op":"close_client"}`:                                                                     false,
		`{"op":"end_of_day"}`:                                                                       true,
		`{"op":"end_of_day","account":"a"}`:                                                         false,
		`{"op":"end_of_day","sequence":"/=1"}`:                                                      true,
		`{"op":"end_of_day","sequence":"client/42=17;end, a%2Cb=100000000000000;epoch=65535"}`:      true,
		`{"op":"end_of_day","sequence":"client/42=17;end;epoch=2"}`:                                 true,
		`{"op":"end_of_day","sequence":"client/42=17;epoch=2;end"}`:                                 true,
		`{"op":"end_of_day","sequence":"client/42=17;epoch=0"}`:                                     false,
		`{"op":"end_of_day","sequence":"client/42=17;epoch=2;epoch=2"}`:                             false,
		`{"op":"end_of_day","sequence":"client/42=100000000000001"}`:                                false,
		`{"op":"end_of_day","sequence":""}`:                                                         false,
		`{"op":"end_of_day","sequence":"17"}`:                                                       false,
		`{"op":"end_of_day","sequence":"client/42=0"}`:                                              false,
		`{"op":"end_of_day","sequence":"client/42=17;last"}`:                                        false,
		`{"op":"end_of_day","sequence":17}`:                                                         false,
	} {
		assert.Equal(t, good, validates(t, schema, text), "schema: %.200s", text)
		_, err := book.Decode([]byte(text))
		assert.Equal(t, good, err == nil, "program: %.200s: %v", text, err)
	}
	for _, text := range []string{
		`{"op":"open","account":"a","account":"b"}`,
		`{"op":"transfer","from":"a","to":"a","amount":"1"}`,
		`{"op":"end_of_day","sequence":"a=1, a=2"}`,
		`{"op":"end_of_day","sequence":"a//b=1"}`,
		`{"op":"end_of_day","sequence":"input/7/a=1"}`,
	} {
		assert.True(t, validates(t, schema, text), text)
		_, err := book.Decode([]byte(text))
		assert.Error(t, err, text)
	}
}
