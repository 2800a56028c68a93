// Package plot draws what became of each event of a run, as SVG: its latency,
// by which channel it came, and when the broker was down.
package plot

import (
	"fmt"
	"html"
	"io"
	"math"
	"time"

	"github.com/interlock-go/interlock/examples/failover/internal/feed"
	"github.com/interlock-go/interlock/examples/failover/internal/measure"
)

// Panel is one way.
type Panel struct {
	Title string
	Run   measure.Run
}

const (
	width, panelHeight    = 1200.0, 190.0
	left, right           = 64.0, 20.0
	top, between, bottom  = 112.0, 44.0, 46.0
	ink, faint, gridLine  = "#1f2933", "#7b8794", "#e4e7eb"
	brokerColour          = "#2f6fb5"
	httpColour            = "#e07b1a"
	replayColour          = "#8a4fb8"
	badColour             = "#c62828"
	outageColour          = "#fbe3e1"
	font                  = `font-family="Inter, 'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', sans-serif"`
	small, normal, strong = `font-size="11"`, `font-size="12"`, `font-size="14" font-weight="600"`
)

var colours = map[feed.Channel]string{feed.Broker: brokerColour, feed.HTTP: httpColour, feed.Replay: replayColour}

// Write draws the panels, which have the same time, one below the other.
func Write(w io.Writer, panels []Panel) error {
	p := newPlot(w, panels)
	p.draw(panels)
	return p.err
}

// plot writes SVG elements and keeps the first error.
type plot struct {
	w   io.Writer
	err error

	start     time.Time
	span      time.Duration
	low, high float64 // of the latencies, powers of ten in milliseconds
	height    float64 // of the picture
}

func newPlot(w io.Writer, panels []Panel) *plot {
	p := &plot{w: w, low: 1, high: 2, height: top + float64(len(panels))*(panelHeight+between) - between + bottom}
	for _, panel := range panels {
		for _, o := range panel.Run.Sent {
			if p.start.IsZero() || o.Due.Before(p.start) {
				p.start = o.Due
			}
		}
	}
	for _, panel := range panels {
		for _, o := range panel.Run.Sent {
			p.span = max(p.span, o.Due.Sub(p.start))
		}
		for _, o := range panel.Run.Outages {
			p.span = max(p.span, o.Back.Sub(p.start))
		}
		for _, a := range panel.Run.Applied {
			ms := log10(a.At.Sub(a.Due))
			p.low, p.high = min(p.low, math.Floor(ms)), max(p.high, math.Ceil(ms))
		}
	}
	p.span = max(p.span, time.Millisecond)
	return p
}

// log10 is that of the milliseconds, of a tenth of one at least.
func log10(d time.Duration) float64 {
	return math.Log10(max(float64(d)/float64(time.Millisecond), 0.1))
}

func (p *plot) draw(panels []Panel) {
	p.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" %s>`, width, p.height, width, p.height, font)
	p.printf(`<rect width="100%%" height="100%%" fill="#ffffff"/>`)
	p.text(left, 28, `font-size="18" font-weight="600"`, ink, "A broker that is killed again and again")
	p.text(left, 48, normal, faint, "each dot is an event, where it came into being; how long it took until its effect was committed, in milliseconds")
	p.legend(68)
	for i, panel := range panels {
		p.panel(panel, top+float64(i)*(panelHeight+between))
	}
	p.axis(p.height - bottom)
	p.printf(`</svg>`)
}

func (p *plot) panel(panel Panel, y float64) {
	for _, o := range panel.Run.Outages {
		p.printf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`, p.x(o.Died), y, p.x(o.Back)-p.x(o.Died), panelHeight, outageColour)
	}
	for power := p.low; power <= p.high; power++ {
		at := p.y(power, y)
		p.printf(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>`, left, at, width-right, at, gridLine)
		p.text(left-8, at+4, small+` text-anchor="end"`, faint, fmt.Sprint(math.Pow(10, power)))
	}
	f := measure.Of(panel.Run)
	p.text(left, y-8, strong, ink, fmt.Sprintf("%s: %d of %d delivered, %d out of order, %d duplicates applied",
		panel.Title, f.Delivered, f.Sent, f.Delivered-f.Ordered, f.Duplicates))
	p.dots(panel.Run, y)
}

func (p *plot) dots(run measure.Run, y float64) {
	times := map[int]int{}
	for _, a := range run.Applied {
		times[a.N]++
		d := a.At.Sub(a.Due)
		x, y := p.x(a.Due), p.y(log10(d), y)
		what := fmt.Sprintf("key %d number %d, by %s, %v", a.Key, a.Number, a.Channel, d.Round(10*time.Microsecond))
		if times[a.N] > 1 {
			p.printf(`<circle cx="%.1f" cy="%.1f" r="4" fill="none" stroke="%s"><title>%s, once more</title></circle>`, x, y, badColour, html.EscapeString(what))
			continue
		}
		p.printf(`<circle cx="%.1f" cy="%.1f" r="2.2" fill="%s"><title>%s</title></circle>`, x, y, colours[a.Channel], html.EscapeString(what))
	}
	for _, o := range run.Sent {
		if times[o.N] == 0 {
			p.cross(p.x(o.Due), y+8, fmt.Sprintf("key %d number %d, lost", o.Key, o.Number))
		}
	}
}

func (p *plot) cross(x, y float64, what string) {
	p.printf(`<path d="M%.1f %.1fl8 8m0 -8l-8 8" stroke="%s" stroke-width="2"><title>%s</title></path>`, x-4, y-4, badColour, html.EscapeString(what))
}

func (p *plot) legend(y float64) {
	x := left
	next := func(draw func(), text string) {
		draw()
		p.text(x+12, y+4, normal, ink, text)
		x += 150
	}
	for _, c := range []struct {
		channel feed.Channel
		text    string
	}{{feed.Broker, "by the broker"}, {feed.HTTP, "by HTTP"}, {feed.Replay, "asked for again"}} {
		next(func() { p.printf(`<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>`, x, y, colours[c.channel]) }, c.text)
	}
	next(func() { p.printf(`<circle cx="%.1f" cy="%.1f" r="4" fill="none" stroke="%s"/>`, x, y, badColour) }, "applied twice")
	next(func() { p.cross(x, y, "lost") }, "lost")
	next(func() {
		p.printf(`<rect x="%.1f" y="%.1f" width="14" height="12" fill="%s"/>`, x-6, y-6, outageColour)
	}, "broker down")
}

func (p *plot) axis(y float64) {
	step := niceStep(p.span)
	for at := time.Duration(0); at <= p.span; at += step {
		x := p.x(p.start.Add(at))
		p.printf(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>`, x, y, x, y+5, faint)
		p.text(x, y+20, small+` text-anchor="middle"`, faint, at.String())
	}
	p.printf(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>`, left, y, width-right, y, faint)
}

// niceStep is 1, 2 or 5 times a power of ten, such that there are about ten.
func niceStep(span time.Duration) time.Duration {
	rough := float64(span) / 10
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, factor := range []float64{1, 2, 5} {
		if power*factor >= rough {
			return time.Duration(power * factor)
		}
	}
	return time.Duration(power * 10)
}

func (p *plot) x(at time.Time) float64 {
	return left + float64(at.Sub(p.start))/float64(p.span)*(width-left-right)
}

func (p *plot) y(log, top float64) float64 {
	return top + panelHeight*(1-(log-p.low)/(p.high-p.low))
}

func (p *plot) text(x, y float64, style, fill, text string) {
	p.printf(`<text x="%.1f" y="%.1f" %s fill="%s">%s</text>`, x, y, style, fill, html.EscapeString(text))
}

func (p *plot) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}
