package inspect

import (
	"fmt"
	"time"

	"github.com/interlock-go/interlock/internal/human"
)

// chart is a picture of a timeline: a lane for each worker, and one for those that wait.
type chart struct {
	Width, Height int
	From, To      string
	Lanes         []lane
	Bars          []bar
	Lives         []Life // as a list
}

type lane struct {
	Name string
	Y    int
}

type bar struct {
	X, Y, Width, Height int
	State               string
	Title               string
}

const (
	chartWide  = 960
	chartLeft  = 90
	laneHigh   = 26
	maxBars    = 600
	maxWaiting = 12 // lanes for what no worker has
)

// chartOf draws lives until now.
func chartOf(lives []Life, now time.Time) chart {
	c := chart{Width: chartWide, Lives: lives}
	var from time.Time
	workers := 0
	for _, l := range lives {
		for _, p := range l.Parts {
			if from.IsZero() || p.From.Before(from) {
				from = p.From
			}
			workers = max(workers, p.Worker+1)
		}
	}
	if from.IsZero() {
		return c
	}
	span := max(now.Sub(from), time.Millisecond)
	x := func(t time.Time) int {
		return chartLeft + int(float64(chartWide-chartLeft-4)*float64(t.Sub(from))/float64(span))
	}
	for w := range workers {
		c.Lanes = append(c.Lanes, lane{fmt.Sprintf("worker %d", w), w * laneHigh})
	}
	c.Lanes = append(c.Lanes, lane{"no worker", workers * laneHigh})
	below := 0
	for _, l := range lives {
		waits := false
		for _, p := range l.Parts {
			to := p.To
			if to.IsZero() {
				to = now
			}
			y := p.Worker * laneHigh
			if p.Worker < 0 {
				y = (workers + below) * laneHigh
				waits = true
			}
			if len(c.Bars) == maxBars || p.Worker < 0 && below >= maxWaiting {
				continue
			}
			c.Bars = append(c.Bars, bar{
				X: x(p.From), Y: y + 3, Width: max(x(to)-x(p.From), 2), Height: laneHigh - 6, State: p.State,
				Title: fmt.Sprintf("%s: %s %s", lifeTitle(l), p.State, human.Duration(to.Sub(p.From))),
			})
		}
		if waits {
			below++
		}
	}
	c.Height = (workers+min(max(below, 1), maxWaiting))*laneHigh + 4
	c.From, c.To = from.UTC().Format("15:04:05.000"), now.UTC().Format("15:04:05.000")
	return c
}

// partText is how long a part has lasted.
func partText(now time.Time, p Part) string {
	if p.To.IsZero() {
		return "for " + human.Duration(now.Sub(p.From))
	}
	return human.Duration(p.To.Sub(p.From))
}

func lifeTitle(l Life) string {
	if l.Name != "" {
		return l.Name
	}
	return fmt.Sprintf("message %d", l.ID)
}
