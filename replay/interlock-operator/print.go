package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/ordering"
)

// print prints a value as JSON, or tables.
func (o *options) print(out io.Writer, value any, tables ...view.Table) error {
	if o.json {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(value)
	}
	for _, t := range tables {
		if err := printTable(out, t); err != nil {
			return err
		}
	}
	return nil
}

// printView prints what is seen of a consumer.
func printView(out io.Writer, name string, v view.View) error {
	state := "nothing is parked"
	if len(v.Problems) > 0 {
		state = strings.Join(v.Problems, "; ")
	}
	if _, err := fmt.Fprintf(out, "%s %s: %s\n", v.Kind, plain(name), plain(state)); err != nil {
		return err
	}
	for _, t := range v.Tables {
		if len(t.Rows) == 0 {
			continue
		}
		if err := printTable(out, t); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(out)
	return err
}

// printTable prints a table, with the targets of its rows in front.
func printTable(out io.Writer, t view.Table) error {
	if _, err := fmt.Fprintln(out, t.Name); err != nil {
		return err
	}
	if len(t.Rows) == 0 {
		return nil
	}
	targets := false
	for _, r := range t.Rows {
		targets = targets || r.Target != ""
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(target string, cells []string) {
		if targets {
			cells = append([]string{target}, cells...)
		}
		for i, c := range cells {
			cells[i] = plain(c)
		}
		fmt.Fprintf(w, "  %s\n", strings.Join(cells, "\t"))
	}
	line("TARGET", append([]string(nil), t.Columns...))
	for _, r := range t.Rows {
		line(r.Target, append([]string(nil), r.Cells...))
	}
	if t.Hidden > 0 {
		fmt.Fprintf(w, "  and %d more\n", t.Hidden)
	}
	return w.Flush()
}

// plain returns a text without characters that a terminal would take for something else.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, text)
}

func owners(list []ordering.TermInfo) view.Table {
	t := view.Table{Name: "Owners", Columns: []string{"Consumer", "Partition", "Holder", "Term", "Since (UTC)"}}
	for _, o := range list {
		t.Rows = append(t.Rows, view.Row{Cells: []string{o.Name, o.Partition, o.Holder, fmt.Sprint(o.Number), o.Since.UTC().Format(time.DateTime)}})
	}
	return t
}

func requests(list []ordering.Request) view.Table {
	t := view.Table{Name: "Requests", Columns: []string{"Number", "Consumer", "What", "Target", "Who", "Why", "Made (UTC)", "State"}}
	for _, r := range list {
		t.Rows = append(t.Rows, view.Row{Cells: []string{fmt.Sprint(r.ID), r.Consumer, r.Action.Name, r.Action.Target, r.By, r.Reason,
			r.Made.UTC().Format(time.DateTime), r.State()}})
	}
	return t
}
