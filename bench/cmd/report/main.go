// Command report runs all comparisons and writes the tables to RESULTS.md. Run it in
// the directory of the module; it takes some minutes.
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/interlock-go/interlock/bench"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var text bytes.Buffer
	progress := func(what string) { fmt.Fprintln(os.Stderr, what) }
	if err := bench.Report(&text, "go run ./cmd/report", bench.Full, progress); err != nil {
		return err
	}
	return os.WriteFile("RESULTS.md", text.Bytes(), 0o644)
}
