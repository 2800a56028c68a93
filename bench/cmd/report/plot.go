package main

import (
	"image/color"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/palette/brewer"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The sizes of a picture.
const (
	width  = 18 * vg.Centimeter
	bar    = 3 * vg.Millimeter
	margin = 3 * vg.Centimeter // for title, axis and legend
)

// contenderIs is the parameter that tells contenders apart: each has a colour.
const contenderIs = "by"

// plot draws a bar for the median of each row, in groups of rows that differ only in their
// contender.
func (t *table) plot(title, unit, file string) error {
	var groups, contenders []string
	for _, r := range t.rows {
		group, contender := r.split(t.rows[0])
		if !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
		if !slices.Contains(contenders, contender) {
			contenders = append(contenders, contender)
		}
	}
	values := make([]plotter.Values, len(contenders))
	for i := range values {
		values[i] = make(plotter.Values, len(groups))
	}
	for _, r := range t.rows {
		group, contender := r.split(t.rows[0])
		// The first group is to be at the top, and its first contender too.
		at := len(groups) - 1 - slices.Index(groups, group)
		values[slices.Index(contenders, contender)][at], _ = r.median(unit)
	}

	p := plot.New()
	p.Title.Text = title
	p.X.Label.Text = described(unit)
	p.X.Min = 0
	p.BackgroundColor = color.White // readable on a dark page, too
	p.Legend.Top = true
	p.Legend.YOffs = vg.Length(len(contenders)) * bar // in the room that is made for it below
	colors, err := brewer.GetPalette(brewer.TypeQualitative, "Paired", max(3, len(contenders)))
	if err != nil {
		return err
	}
	for i, v := range values {
		bars, err := plotter.NewBarChart(v, bar)
		if err != nil {
			return err
		}
		bars.Horizontal, bars.Color, bars.LineStyle.Width = true, colors.Colors()[i], 0
		bars.Offset = bar * vg.Length(float64(len(contenders)-1)/2-float64(i))
		p.Add(bars)
		if contenders[i] != "" {
			p.Legend.Add(contenders[i], bars)
		}
	}
	p.Add(lines())
	slices.Reverse(groups)
	p.NominalY(groups...)
	height := margin + vg.Length(len(groups)*(len(contenders)+1)+len(contenders)+2)*bar
	return p.Save(width, height, file)
}

// lines are vertical ones that help to read values off.
func lines() *plotter.Grid {
	g := plotter.NewGrid()
	g.Horizontal.Color = nil
	g.Vertical = draw.LineStyle{Color: color.Gray{Y: 200}, Width: vg.Points(0.5)}
	return g
}

// split returns the row's contender, and what the others of its group have in common: the
// parameters in which they differ from the first row of the table, or, if that is of the
// same group, all.
func (r *row) split(first *row) (group, contender string) {
	var all, differ []string
	for i, p := range r.parameters {
		switch {
		case p.name == contenderIs:
			contender = p.value
			continue
		case i < len(first.parameters) && p != first.parameters[i]:
			differ = append(differ, p.name+" "+p.value)
		}
		all = append(all, p.name+" "+p.value)
	}
	if len(differ) > 0 {
		all = differ
	}
	return strings.Join(all, "\n"), contender
}

// described says what the axis shows.
func described(unit string) string {
	switch base, isRatio := strings.CutPrefix(unit, "×"); {
	case isRatio && base == "least":
		return "elapsed time, in times of the least possible"
	case isRatio && base == "one-by-one":
		return "messages per second, in times of one-by-one"
	case isRatio:
		return "time, in times of " + base
	case unit == "ns/op":
		return "nanoseconds (ns)"
	case unit == "s/all":
		return "seconds (s)"
	default:
		return strings.Replace(unit, "/s", " per second", 1)
	}
}
