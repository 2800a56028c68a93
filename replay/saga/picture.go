package saga

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// Mermaid returns the definition as a flow chart in the language of Mermaid: an arrow
// leads to a step from each one that must be completed before it; a dotted one, to how it
// is undone. The pivot is a hexagon.
func (r Registered) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	for i, s := range r.d.steps {
		left, right := `["`, `"]`
		if s.pivot {
			left, right = `{{"`, `"}}`
		}
		fmt.Fprintf(&b, "  s%d%s%s%s\n", i, left, mermaid(s.name), right)
		for _, j := range r.d.plan[i].after {
			fmt.Fprintf(&b, "  s%d --> s%d\n", j, i)
		}
		if s.undo != nil {
			fmt.Fprintf(&b, "  s%d -.-> u%d([\"undo %s\"])\n", i, i, mermaid(s.name))
		}
	}
	return b.String()
}

// mermaid escapes a text.
func mermaid(text string) string {
	return strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;").Replace(text)
}

// picture writes SVG, and keeps the first error.
type picture struct {
	to  io.Writer
	err error
}

func (p *picture) add(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.to, format+"\n", args...)
	}
}

func (p *picture) begin(width, height int) {
	p.add(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`, width, height, width, height)
	p.add(`<rect width="%d" height="%d" fill="#ffffff"/>`, width, height)
}

// text writes a text; anchor is start, middle or end.
func (p *picture) text(x, y int, anchor, text string) {
	p.add(`<text x="%d" y="%d" text-anchor="%s">%s</text>`, x, y, anchor, xml(text))
}

// xml escapes a text, without the characters that XML cannot have.
func xml(text string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0xFFFE || r == 0xFFFF {
			return '\uFFFD'
		}
		return r
	}, text))
}

// SVG writes the definition as a picture: steps that can run side by side are below each
// other, the pivot has a thick frame, and each step says whether it can be undone.
func (r Registered) SVG(w io.Writer) error {
	const width, height, across, down, margin = 130, 44, 50, 24, 16
	columns, rows := make([]int, len(r.d.steps)), make([]int, len(r.d.steps))
	inColumn := map[int]int{}
	wide, high := 1, 1
	for i, s := range r.d.plan {
		for _, j := range s.after {
			columns[i] = max(columns[i], columns[j]+1)
		}
		rows[i] = inColumn[columns[i]]
		inColumn[columns[i]]++
		wide, high = max(wide, columns[i]+1), max(high, inColumn[columns[i]])
	}
	x := func(i int) int { return margin + columns[i]*(width+across) }
	y := func(i int) int { return margin + rows[i]*(height+down) }
	p := &picture{to: w}
	p.begin(2*margin+wide*(width+across)-across, 2*margin+high*(height+down)-down)
	p.add(`<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="#555555"/></marker></defs>`)
	for i, s := range r.d.steps {
		for _, j := range r.d.plan[i].after {
			p.add(`<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#555555" marker-end="url(#arrow)"/>`, x(j)+width, y(j)+height/2, x(i), y(i)+height/2)
		}
		frame, undo := 1, "nothing to undo"
		if s.pivot {
			frame = 3
		}
		if s.undo != nil {
			undo = "can be undone"
		}
		p.add(`<rect x="%d" y="%d" width="%d" height="%d" rx="6" fill="#eef3fb" stroke="#2b5797" stroke-width="%d"/>`, x(i), y(i), width, height, frame)
		p.text(x(i)+width/2, y(i)+18, "middle", s.name)
		p.text(x(i)+width/2, y(i)+35, "middle", undo)
	}
	p.add(`</svg>`)
	return p.err
}
