package main

import (
	"bytes"
	"image/color"
	"os"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/palette/brewer"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The sizes of a picture.
const (
	width      = 18 * vg.Centimeter
	bar        = 3 * vg.Millimeter
	axis       = 1.8 * vg.Centimeter
	legendLine = 5 * vg.Millimeter
	edge       = 3 * vg.Millimeter
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

	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	p := plot.New()
	p.X.Label.Text = described(unit)
	p.Add(lines())
	legend := plot.NewLegend()
	legend.Top, legend.Left, legend.Padding = true, true, vg.Millimeter
	legend.TextStyle.Font.Size = 10
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
		numbers, err := beside(v, bars.Offset)
		if err != nil {
			return err
		}
		p.Add(bars, numbers)
		if contenders[i] != "" {
			legend.Add(contenders[i], bars)
		}
	}
	slices.Reverse(groups)
	p.NominalY(groups...)
	p.Y.Padding = 4 * vg.Millimeter // for fonts that are wider than ours
	p.X.Min, p.X.Max = 0, 1.15*p.X.Max
	p.Y.Min, p.Y.Max = -0.5, float64(len(groups))-0.5

	top := vg.Length(len(contenders)+2) * legendLine
	height := top + axis + vg.Length(len(groups)*max(len(contenders)+1, 3))*bar
	picture := vgsvg.New(width, height)
	all := draw.New(picture)
	all.SetColor(color.White) // readable on a dark page, too
	all.Fill(all.Rectangle.Path())
	heading := p.Title.TextStyle
	heading.XAlign, heading.YAlign = text.XLeft, text.YTop
	all.FillText(heading, vg.Point{X: edge, Y: height - edge}, title)
	legend.Draw(draw.Crop(all, edge, -edge, 0, -2*legendLine))
	p.Draw(draw.Crop(all, edge, -edge, edge, -top))
	return save(picture, file)
}

func save(picture *vgsvg.Canvas, file string) error {
	var b bytes.Buffer
	if _, err := picture.WriteTo(&b); err != nil {
		return err
	}
	// Who does not have the font is to see one that is as wide.
	svg := bytes.ReplaceAll(b.Bytes(), []byte("Liberation Sans"), []byte("Liberation Sans,Arial,Helvetica,sans-serif"))
	return os.WriteFile(file, svg, 0o644)
}

// beside returns the numbers to write beside bars.
func beside(values plotter.Values, offset vg.Length) (*plotter.Labels, error) {
	l := plotter.XYLabels{XYs: make(plotter.XYs, len(values)), Labels: make([]string, len(values))}
	for i, v := range values {
		l.XYs[i] = plotter.XY{X: v, Y: float64(i)}
		if v > 0 {
			l.Labels[i] = number(v)
		}
	}
	numbers, err := plotter.NewLabels(l)
	if err != nil {
		return nil, err
	}
	numbers.Offset = vg.Point{X: vg.Millimeter, Y: offset}
	for i := range numbers.TextStyle {
		numbers.TextStyle[i].Font.Size, numbers.TextStyle[i].YAlign = 7, text.YCenter
	}
	return numbers, nil
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
	case unit == "ns/op" || strings.HasSuffix(unit, "-ns"):
		return "nanoseconds (ns)"
	case strings.HasPrefix(unit, "s/"): // s/all, s/parked
		return "seconds (s)"
	case unit == "ms-p50":
		return "median, in milliseconds (ms)"
	case unit == "B/event":
		return "bytes for an event (B)"
	default:
		return strings.Replace(unit, "/s", " per second", 1)
	}
}
