package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/interlock-go/interlock/examples/ledger/internal/audit"
	"github.com/interlock-go/interlock/lockkeys"
)

// Timeline is a picture of when the handlers of some messages ran: a lane for
// each worker, a bar for each message, a colour for each client or top-level
// account.
type Timeline struct {
	lanes  []int // workers
	bars   []bar
	groups []string // the ones that have a colour of their own, by frequency
	others bool     // whether there are more
	span   time.Duration
	facts  features
	total  int // messages of the run
}

// bar is one message.
type bar struct {
	record   audit.Record
	lane     int
	from, to time.Duration // since the first message began
	groups   []string
	reads    bool // it only reads
}

// features tells what the legend has to explain.
type features struct{ whole, several, reads bool }

// wholeBook is the group of messages that lock everything.
const wholeBook = "whole book"

// NewTimeline lays out the first messages of a run, which had total.
func NewTimeline(records []audit.Record, total int) *Timeline {
	t := &Timeline{total: total}
	ran := slices.DeleteFunc(slices.Clone(records), func(r audit.Record) bool { return r.Run.End == 0 })
	if len(ran) == 0 {
		return t
	}
	slices.SortFunc(ran, func(a, b audit.Record) int { return cmp.Compare(a.Run.Begin, b.Run.Begin) })
	zero := ran[0].Run.Start
	for _, r := range ran {
		if i, known := slices.BinarySearch(t.lanes, r.Run.Worker); !known {
			t.lanes = slices.Insert(t.lanes, i, r.Run.Worker)
		}
	}
	count := map[string]int{}
	for _, r := range ran {
		groups, reads := groupsOf(r)
		lane, _ := slices.BinarySearch(t.lanes, r.Run.Worker)
		b := bar{r, lane, r.Run.Start.Sub(zero), r.Run.Stop.Sub(zero), groups, reads}
		t.bars = append(t.bars, b)
		t.span = max(t.span, b.to)
		for _, g := range groups {
			count[g]++
		}
		t.facts.whole = t.facts.whole || slices.Contains(groups, wholeBook)
		t.facts.several = t.facts.several || len(groups) > 1
		t.facts.reads = t.facts.reads || reads
	}
	delete(count, wholeBook)
	t.groups = slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(-cmp.Compare(count[a], count[b]), cmp.Compare(a, b))
	})
	if len(t.groups) > len(palette) {
		t.groups, t.others = t.groups[:len(palette)], true
	}
	return t
}

// groupsOf names what a message locks, up to the client.
func groupsOf(r audit.Record) (groups []string, reads bool) {
	var claim lockkeys.Claim
	if err := r.Message.Claim(&claim); err != nil {
		return nil, false
	}
	reads = true
	for _, request := range claim.Requests() {
		reads = reads && request.Mode == lockkeys.Shared
		if g := groupOf(request.Key); !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
	}
	return groups, reads
}

// groupOf is the first level of a key, and for clients the second as well.
func groupOf(k lockkeys.Key) string {
	depth := min(k.Depth(), 1)
	if depth == 0 {
		return wholeBook
	}
	if k.Depth() > 1 && k.Ancestor(1) == lockkeys.Must("client") {
		depth = 2
	}
	return k.Ancestor(depth).String()
}

// The colours of groups, chosen to be told apart by most people, and others.
var palette = []string{
	"#4477aa", "#ee6677", "#228833", "#b9a42a", "#46aedb",
	"#aa3377", "#ee8833", "#997755", "#6655bb", "#44aa99",
}

const (
	otherColour = "#b9bec6"
	wholeColour = "#22262e"
	ink         = "#22262e"
	faintInk    = "#68707d"
	gridLine    = "#e4e7ec"
	laneFill    = "#f6f7f9"
)

func (t *Timeline) colour(group string) string {
	if group == wholeBook {
		return wholeColour
	}
	if i := slices.Index(t.groups, group); i >= 0 {
		return palette[i]
	}
	return otherColour
}

// Sizes, in pixels.
const (
	width       = 1280
	leftMargin  = 84
	rightMargin = 32
	topMargin   = 108
	legendLine  = 22
	axisHeight  = 44
)

func (t *Timeline) laneHeight() float64 {
	switch n := len(t.lanes); {
	case n <= 8:
		return 34
	case n <= 24:
		return 24
	default:
		return 15
	}
}

// extent says what part of the run is shown.
func (t *Timeline) extent() string {
	if len(t.bars) >= t.total {
		return fmt.Sprintf("All %s, in %s.", plural(len(t.bars), "message", "messages"), roundDuration(t.span))
	}
	return fmt.Sprintf("The first %s of %s messages, in %s. Later ones, which ran in the gaps, are left out.",
		count(len(t.bars)), count(t.total), roundDuration(t.span))
}

// WriteSVG draws the picture. The title says what it shows.
func (t *Timeline) WriteSVG(w io.Writer, title string) error {
	c := &canvas{w: w}
	lanes := float64(len(t.lanes)) * t.laneHeight()
	bottom := topMargin + lanes
	legend := t.legend()
	height := bottom + axisHeight + float64(legendRows(legend))*legendLine + 16
	c.open(width, height)
	c.text(leftMargin, 38, `font-size="21" font-weight="600"`, ink, title)
	c.text(leftMargin, 60, `font-size="13"`, faintInk,
		"A bar lasts from the start of a message's handler to its end. Bars of one colour lock the same client or top-level account.")
	c.text(leftMargin, 78, `font-size="13"`, faintInk, t.extent())
	for i, worker := range t.lanes {
		y := topMargin + float64(i)*t.laneHeight()
		if i%2 == 0 {
			c.rect(leftMargin, y, width-leftMargin-rightMargin, t.laneHeight(), fmt.Sprintf(`fill="%s"`, laneFill), "")
		}
		c.text(leftMargin-10, y+t.laneHeight()/2+4, `font-size="11" text-anchor="end"`, faintInk, fmt.Sprintf("worker %d", worker))
	}
	t.drawAxis(c, bottom)
	for _, b := range t.bars {
		t.drawBar(c, b)
	}
	drawLegend(c, legend, bottom+axisHeight+14)
	c.close()
	return c.err
}
