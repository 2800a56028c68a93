package report

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// canvas writes SVG elements and keeps the first error.
type canvas struct {
	w   io.Writer
	err error
}

func (c *canvas) printf(format string, args ...any) {
	if c.err == nil {
		_, c.err = fmt.Fprintf(c.w, format+"\n", args...)
	}
}

func (c *canvas) open(width, height float64) {
	c.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" `+
		`font-family="Inter, 'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', sans-serif">`, width, height, width, height)
	c.printf(`<defs><pattern id="reads" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">` +
		`<rect width="2.4" height="5" fill="#ffffff" fill-opacity="0.62"/></pattern></defs>`)
	c.printf(`<rect width="100%%" height="100%%" fill="#ffffff"/>`)
}

func (c *canvas) close() { c.printf(`</svg>`) }

func (c *canvas) text(x, y float64, style, fill, text string) {
	c.printf(`<text x="%.1f" y="%.1f" %s fill="%s">%s</text>`, x, y, style, fill, html.EscapeString(text))
}

// rect draws a rectangle, with a tooltip if there is one.
func (c *canvas) rect(x, y, w, h float64, style, tooltip string) {
	if tooltip == "" {
		c.printf(`<rect x="%.2f" y="%.2f" width="%.2f" height="%.2f" %s/>`, x, y, w, h, style)
		return
	}
	c.printf(`<rect x="%.2f" y="%.2f" width="%.2f" height="%.2f" %s><title>%s</title></rect>`, x, y, w, h, style, html.EscapeString(tooltip))
}

func (c *canvas) line(x1, y1, x2, y2 float64, stroke string) {
	c.printf(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>`, x1, y1, x2, y2, stroke)
}

// x is where a moment lies.
func (t *Timeline) x(at time.Duration) float64 {
	return leftMargin + float64(at)/float64(max(t.span, 1))*(width-leftMargin-rightMargin)
}

func (t *Timeline) drawBar(c *canvas, b bar) {
	const gap = 2
	y, height := topMargin+float64(b.lane)*t.laneHeight()+gap, t.laneHeight()-2*gap
	x := t.x(b.from)
	wide := max(t.x(b.to)-x-0.6, 0.8)
	tooltip := fmt.Sprintf("#%d %s: %s, %s after the start, for %s", b.record.ID, b.record.Message.Op,
		strings.Join(b.groups, " and "), roundDuration(b.from), roundDuration(b.to-b.from))
	if b.record.Message.ID != "" {
		tooltip = b.record.Message.ID + " " + tooltip
	}
	stripe := height / float64(max(len(b.groups), 1))
	for i, g := range b.groups {
		c.rect(x, y+float64(i)*stripe, wide, stripe, fmt.Sprintf(`fill="%s"`, t.colour(g)), tooltip)
	}
	if b.reads {
		c.rect(x, y, wide, height, `fill="url(#reads)"`, tooltip)
	}
	label := b.record.Message.ID
	if label != "" && wide > 8*float64(utf8.RuneCountInString(label))+6 && height >= 16 {
		c.text(x+wide/2, y+height/2+4.5, `font-size="13" font-weight="600" text-anchor="middle"`, "#ffffff", label)
	}
}

func (t *Timeline) drawAxis(c *canvas, bottom float64) {
	step := niceStep(t.span)
	for at := time.Duration(0); at <= t.span; at += step {
		c.line(t.x(at), topMargin-6, t.x(at), bottom+6, gridLine)
		c.text(t.x(at), bottom+22, `font-size="11" text-anchor="middle"`, faintInk, at.String())
	}
	c.line(leftMargin, bottom, width-rightMargin, bottom, faintInk)
}

// niceStep is 1, 2 or 5 times a power of ten, such that there are about eight
// steps.
func niceStep(span time.Duration) time.Duration {
	rough := float64(max(span, time.Microsecond)) / 8
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, factor := range []float64{1, 2, 5} {
		if power*factor >= rough {
			return time.Duration(power * factor)
		}
	}
	return time.Duration(power * 10)
}

// roundDuration keeps three digits or so.
func roundDuration(d time.Duration) time.Duration {
	for unit := time.Second; unit > time.Nanosecond; unit /= 10 {
		if d >= 100*unit {
			return d.Round(unit)
		}
	}
	return d
}

// legendEntry is a sample and its meaning.
type legendEntry struct {
	colours []string
	hatched bool
	text    string
}

func (t *Timeline) legend() (entries []legendEntry) {
	for i, g := range t.groups {
		entries = append(entries, legendEntry{colours: palette[i : i+1], text: g})
	}
	if t.others {
		entries = append(entries, legendEntry{colours: []string{otherColour}, text: "others"})
	}
	if t.facts.whole {
		entries = append(entries, legendEntry{colours: []string{wholeColour}, text: wholeBook})
	}
	if t.facts.several {
		entries = append(entries, legendEntry{colours: []string{palette[0], palette[1]}, text: "several: a stripe for each"})
	}
	if t.facts.reads {
		entries = append(entries, legendEntry{colours: []string{palette[0]}, hatched: true, text: "only reads"})
	}
	return entries
}

const legendColumn = 228

const legendPerRow = (width - leftMargin - rightMargin) / legendColumn

func legendRows(entries []legendEntry) int { return (len(entries) + legendPerRow - 1) / legendPerRow }

func drawLegend(c *canvas, entries []legendEntry, top float64) {
	for i, e := range entries {
		x := leftMargin + float64(i%legendPerRow)*legendColumn
		y := top + float64(i/legendPerRow)*legendLine
		const size = 13
		stripe := size / float64(len(e.colours))
		for j, colour := range e.colours {
			c.rect(x, y+float64(j)*stripe, size, stripe, fmt.Sprintf(`fill="%s"`, colour), "")
		}
		if e.hatched {
			c.rect(x, y, size, size, `fill="url(#reads)"`, "")
		}
		c.text(x+size+7, y+11, `font-size="12"`, ink, shorten(e.text, 28))
	}
}

// shorten keeps the first n characters.
func shorten(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return string(runes[:n-1]) + "…"
}
