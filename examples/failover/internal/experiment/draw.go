package experiment

import (
	"errors"
	"os"

	"github.com/interlock-go/interlock/examples/failover/internal/measure"
	"github.com/interlock-go/interlock/examples/failover/internal/plot"
)

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
