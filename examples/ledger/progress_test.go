package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/schollz/progressbar/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNoProgressWithoutTerminal(t *testing.T) {
	assert.Nil(t, newProgress(new(bytes.Buffer), 10, countMessages))
	file, err := os.Create(t.TempDir() + "/file")
	require.NoError(t, err)
	defer file.Close()
	p := newProgress(file, 10, countBytes)
	assert.Nil(t, p)
	p.ended()
	p.finish()
	input := strings.NewReader("x")
	assert.Same(t, input, p.reader(input))
}

func TestProgressCounts(t *testing.T) {
	shown := func(by unit) *progress {
		return &progress{progressbar.NewOptions64(4, progressbar.OptionSetWriter(io.Discard)), by}
	}
	messages := shown(countMessages)
	messages.ended()
	_, err := io.ReadAll(messages.reader(strings.NewReader("abc")))
	require.NoError(t, err)
	assert.EqualValues(t, 1, messages.bar.State().CurrentNum)

	bytes := shown(countBytes)
	bytes.ended()
	_, err = io.ReadAll(bytes.reader(strings.NewReader("abc")))
	require.NoError(t, err)
	assert.EqualValues(t, 3, bytes.bar.State().CurrentNum)
	bytes.finish()
	assert.True(t, bytes.bar.IsFinished())
}
