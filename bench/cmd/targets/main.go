// Command targets measures what the project wants to be, and writes one line
// for each target: its name, what was measured, what is wanted, and whether
// that is met. It is run in the directory of the module, takes less than a
// minute and always succeeds.
package main

import (
	"fmt"
	"os"

	"github.com/interlock-go/interlock/bench"
)

func main() {
	virtual, err := bench.MeasureVirtual()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err := bench.WriteTargets(os.Stdout, bench.Targets(bench.Short, virtual)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
