// Command model prints what the analytical model predicts beside what the
// sequencer does, in virtual time. It is run in the directory of the module
// and takes about a minute.
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
