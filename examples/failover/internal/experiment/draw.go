package experiment

import (
	"errors"
	"os"

	"github.com/interlock-go/interlock/examples/failover/internal/measure"
	"github.com/interlock-go/interlock/examples/failover/internal/plot"
)

// canDraw returns an error if the picture could not be written, which is better known
// before the experiment than after it.
func (o Config) canDraw() error {
	if o.Plot == "" {
		return nil
	}
	f, err := os.OpenFile(o.Plot, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	return f.Close()
}

// draw writes the picture, if one is wanted.
func (o Config) draw(runs []measure.Run) error {
	if o.Plot == "" {
		return nil
	}
	panels := make([]plot.Panel, len(runs))
	for i, r := range runs {
		panels[i] = plot.Panel{Title: kinds[i].name, Run: r}
	}
	f, err := os.Create(o.Plot)
	if err != nil {
		return err
	}
	return errors.Join(plot.Write(f, panels), f.Close())
}
