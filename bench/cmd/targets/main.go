// Command targets measures the performance targets of the project, and writes one
// line for each: its name, the measurement, the target, and whether it is met. Run
// it in the directory of the module; it takes about three minutes and always
// succeeds.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/interlock-go/interlock/bench"
	"github.com/interlock-go/interlock/bench/model"
)

func main() {
	virtual, err := bench.MeasureVirtual()
	complain(err)
	durable, err := bench.MeasureDurable(context.Background(), bench.Short)
	complain(err)
	rabbit, err := bench.MeasureRabbit(context.Background(), bench.Short)
	complain(err)
	table, err := model.Measure()
	complain(err)
	complain(bench.WriteTargets(os.Stdout, bench.Targets(bench.Short, virtual, durable, rabbit, table)))
}

func complain(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
