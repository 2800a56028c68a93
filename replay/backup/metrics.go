package backup

import (
	"context"

	"github.com/interlock-go/interlock/dispatcher/view"
)

var _ view.Metered = (*Publisher)(nil)

// Metrics implements [view.Metered]: what package telemetry collects.
func (p *Publisher) Metrics(context.Context) ([]view.Metric, error) {
	stats := p.Stats()
	backup := 0
	if stats.Active == Backup {
		backup = 1
	}
	return []view.Metric{
		{Name: "interlock.backup.active", Unit: "{state}", Help: "1 while events go by the backup channel, else 0.", Points: view.One(backup)},
		{Name: "interlock.backup.switches", Unit: "{switch}", Help: "Changes of the active channel.", Grows: true, Points: view.One(stats.Switches)},
		{Name: "interlock.backup.events", Unit: "{event}", Help: "Events by the channel that confirmed them; failed: attempts that neither confirmed.", Grows: true,
			Attribute: "interlock.channel", Points: []view.Point{
				{Of: "primary", Value: float64(stats.Primary)}, {Of: "backup", Value: float64(stats.Backup)}, {Of: "failed", Value: float64(stats.Failed)},
			}},
	}, nil
}
