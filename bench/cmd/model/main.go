// Command model prints the predictions of the analytical model beside measurements
// of the sequencer, in virtual time. Run it in the directory of the module; it takes
// about a minute.
package main

import (
	"fmt"
	"os"

	"github.com/interlock-go/interlock/bench/model"
)

func main() {
	table, err := model.Measure()
	if err == nil {
		err = table.Write(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
