package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/interlock-go/interlock/examples/ledger/internal/report"
)

// outputs are the files that are written at the end.
type outputs struct{ balances, timeline *outFile }

// outputs returns the files once it is sure that they can be written, so that
// what cannot be is told before anything is done.
func (o *options) outputs() (files outputs, err error) {
	balances, err := newOutFile(o.out)
	if err != nil {
		return outputs{}, err
	}
	timeline, err := newOutFile(o.timeline)
	return outputs{balances, timeline}, err
}

func (f *outputs) write(t *term, summary *report.Summary) error {
	balances := f.balances.write(func(w io.Writer) error { return report.WriteBalances(w, summary.Balances) })
	timeline := f.timeline.write(func(w io.Writer) error {
		early := t.audit.Early[:min(len(t.audit.Early), timelineMessages)]
		title := fmt.Sprintf("Who ran when: %s, up to %d at once", summary.Policy, summary.Workers)
		return report.NewTimeline(early, t.audit.Outcomes.Total()).WriteSVG(w, title)
	})
	return errors.Join(balances, timeline)
}

// outFile is a file that takes the place of the one of its name when it is whole.
// The nil outFile is none.
type outFile struct {
	path    string
	inPlace bool // a device or a pipe, or in a folder in which nothing can be made
}

func newOutFile(path string) (*outFile, error) {
	if path == "" {
		return nil, nil
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		if info.IsDir() {
			return nil, fmt.Errorf("%s is a folder: name a file", path)
		}
		return &outFile{path: path, inPlace: true}, nil
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	o := &outFile{path: path}
	if file, err := o.create(); err == nil {
		return o, errors.Join(file.Close(), os.Remove(file.Name()))
	}
	o.inPlace = true
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	return o, file.Close()
}

// create makes the file that is to take the place.
func (o *outFile) create() (*os.File, error) {
	return os.OpenFile(fmt.Sprintf("%s.%d.tmp", o.path, os.Getpid()), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
}

func (o *outFile) write(write func(w io.Writer) error) error {
	if o == nil {
		return nil
	}
	if o.inPlace {
		file, err := os.Create(o.path)
		if err != nil {
			return err
		}
		return errors.Join(write(file), file.Close())
	}
	file, err := o.create()
	if err != nil {
		return err
	}
	if err := errors.Join(write(file), file.Close()); err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return os.Rename(file.Name(), o.path)
}
