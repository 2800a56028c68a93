package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	humanize "github.com/dustin/go-humanize"

	"github.com/interlock-go/interlock/examples/ledger/internal/feed"
	"github.com/interlock-go/interlock/examples/ledger/internal/madeup"
)

// input is where messages come from.
type input struct {
	identity identity
	source   feed.Source
	progress *progress
	close    func() error
}

// twice is a file that is read twice, the second time with progress.
type twice struct {
	*os.File
	counted io.Reader
	again   bool
}

func (t *twice) Read(p []byte) (int, error) {
	if t.again {
		return t.counted.Read(p)
	}
	return t.File.Read(p)
}

func (t *twice) Seek(offset int64, whence int) (int64, error) {
	t.again = true
	return t.File.Seek(offset, whence)
}

// counted is a file that is read once, from a place on, with progress.
type counted struct {
	*os.File
	progress *progress
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.File.Read(p)
	c.progress.read(n)
	return n, err
}

func (c *counted) Seek(offset int64, whence int) (int64, error) {
	at, err := c.File.Seek(offset, whence)
	c.progress.begin(at, countBytes)
	return at, err
}

// openInput opens what -in names, or makes messages up. Progress is shown on
// output, if that is a terminal.
func (o *options) openInput(stdin io.Reader, output io.Writer) (*input, error) {
	nothing := func() error { return nil }
	switch o.in {
	case "":
		name := fmt.Sprintf("%s made-up messages, seed %d", humanize.Comma(int64(o.messages)), o.seed)
		return &input{identity{name: name, identity: name, again: true}.named(o.as), madeup.New(o.messages, o.seed),
			newProgress(output, int64(o.messages), countMessages), nothing}, nil
	case "-":
		source, err := feed.Open(stdin, o.format, o.mark)
		return &input{identity{name: "standard input"}.named(o.as), source, newProgress(output, -1, countMessages), nothing}, err
	}
	file, err := os.Open(o.in)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	id := identity{name: o.in}
	if info.Mode().IsRegular() {
		id.again, id.path = true, o.in
	}
	progress := newProgress(output, info.Size(), countBytes)
	var reader io.Reader
	switch {
	case id.again && o.format == feed.HledgerCSV:
		reader = &twice{file, progress.reader(file), false}
	case id.again:
		reader = &counted{file, progress}
	default:
		reader = bufio.NewReader(progress.reader(file))
	}
	source, err := feed.Open(reader, o.format, o.mark)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &input{id.named(o.as), source, progress, file.Close}, nil
}
