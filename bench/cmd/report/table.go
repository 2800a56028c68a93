package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// table has a row for each sub-benchmark.
type table struct {
	rows  []*row
	units []string // in the order in which they were met
}

// row is what the rounds found out about a sub-benchmark. It has a parameter for each part
// of its name, and in each round a value for each unit.
type row struct {
	name       string
	parameters []parameter
	values     map[string][]float64
}

// parameter is a part of a benchmark's name, such as workers=8.
type parameter struct{ name, value string }

// processors is what go test appends to names.
var processors = regexp.MustCompile(`-\d+$`)

// read adds what go test has printed.
func (t *table) read(output string) error {
	for line := range strings.Lines(output) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		r := t.row(processors.ReplaceAllString(fields[0], ""))
		for i := 2; i+1 < len(fields); i += 2 { // after the name and the number of iterations
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return fmt.Errorf("not a result of a benchmark: %s", line)
			}
			unit := fields[i+1]
			if !slices.Contains(t.units, unit) {
				t.units = append(t.units, unit)
			}
			r.values[unit] = append(r.values[unit], value)
		}
	}
	return nil
}

// row returns the row of that name, a new one if there is none.
func (t *table) row(name string) *row {
	for _, r := range t.rows {
		if r.name == name {
			return r
		}
	}
	r := &row{name: name, values: make(map[string][]float64)}
	for _, part := range strings.Split(name, "/")[1:] {
		key, value, _ := strings.Cut(part, "=")
		r.parameters = append(r.parameters, parameter{key, value})
	}
	t.rows = append(t.rows, r)
	return r
}

// median returns the middle one of the rounds' values, or the mean of the two in the
// middle; false if there are none.
func (r *row) median(unit string) (float64, bool) {
	s := slices.Sorted(slices.Values(r.values[unit]))
	if len(s) == 0 {
		return 0, false
	}
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2, true
}

// write writes the table in Markdown.
func (t *table) write(w io.Writer) {
	head, line := "|", "|"
	for _, p := range t.rows[0].parameters {
		head, line = head+" "+p.name+" |", line+" --- |"
	}
	for _, unit := range t.units {
		head, line = head+" "+unit+" |", line+" ---: |"
	}
	fmt.Fprintln(w, head)
	fmt.Fprintln(w, line)
	for _, r := range t.rows {
		fmt.Fprint(w, "|")
		for _, p := range r.parameters {
			fmt.Fprintf(w, " %s |", p.value)
		}
		for _, unit := range t.units {
			cell := ""
			if v, ok := r.median(unit); ok {
				cell = number(v)
			}
			fmt.Fprintf(w, " %s |", cell)
		}
		fmt.Fprintln(w)
	}
}

// number writes a value with three digits, or all that it has before the point.
func number(v float64) string {
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
