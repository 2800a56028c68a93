package inspect

import (
	"fmt"
	"unicode/utf8"

	"github.com/interlock-go/interlock/dispatcher/view"
)

// graph is a picture of who waits for whom: each message below the one that it waits for,
// one step to the right.
type graph struct {
	Width, Height int
	Nodes         []graphNode
	Hidden        int // messages that do not fit in
}

type graphNode struct {
	view.Message
	X, Y         int
	Label, Title string
	Depth        int
	FromX, FromY int // of the one it waits for; 0 for none
}

const (
	maxNodes  = 80
	nodeWide  = 230
	nodeHigh  = 28
	nodeStep  = 36
	nodeRight = 34
)

// graphOf draws those that others wait for, and these.
func graphOf(list []view.Message) graph {
	waiting := map[uint64][]view.Message{} // by the one they wait for
	in := map[uint64]bool{}
	for _, m := range list {
		in[m.ID] = true
	}
	for _, m := range list {
		if m.Blocker != 0 && in[m.Blocker] {
			waiting[m.Blocker] = append(waiting[m.Blocker], m)
		}
	}
	var g graph
	drawn := map[uint64]bool{}
	var draw func(m view.Message, depth, fromX, fromY int)
	draw = func(m view.Message, depth, fromX, fromY int) {
		if drawn[m.ID] {
			return
		}
		drawn[m.ID] = true
		if len(g.Nodes) == maxNodes {
			g.Hidden++
		} else {
			n := graphNode{
				Message: m, X: 4 + min(depth, 12)*nodeRight, Y: 4 + len(g.Nodes)*nodeStep, Depth: depth,
				Label: cut(m.Title(), 30), FromX: fromX, FromY: fromY,
			}
			n.Title = fmt.Sprintf("%s: %s", m.Title(), m.State)
			if m.Blocker != 0 {
				n.Title += ", for " + requestText(m.Blocks)
			}
			g.Nodes = append(g.Nodes, n)
			g.Width, g.Height = max(g.Width, n.X+nodeWide+4), n.Y+nodeHigh+4
			fromX, fromY = n.X+12, n.Y+nodeHigh
		}
		for _, next := range waiting[m.ID] {
			draw(next, depth+1, fromX, fromY)
		}
	}
	for _, m := range list {
		if !in[m.Blocker] && len(waiting[m.ID]) > 0 {
			draw(m, 0, 0, 0)
		}
	}
	return g
}

// Path is the line from the one that it waits for.
func (n graphNode) Path() string {
	if n.FromY == 0 {
		return ""
	}
	return fmt.Sprintf("M%d %d V%d H%d", n.FromX, n.FromY, n.Y+nodeHigh/2, n.X)
}

// TextX and TextY are where the label begins.
func (n graphNode) TextX() int { return n.X + 10 }

// TextY is the base line of the label.
func (n graphNode) TextY() int { return n.Y + 19 }

// cut returns a text of n characters at most.
func cut(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}
