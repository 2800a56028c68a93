package bench

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// Virtual is the table of TestVirtualMakespan, line by line, and what can be
// learned from it.
type Virtual struct {
	Table []string
	Worst map[int]VirtualWorst // by workers
}

// VirtualWorst is the worst ratio of each policy over all workloads.
type VirtualWorst struct{ LookAhead, HeadOnly float64 }

// MeasureVirtual runs TestVirtualMakespan: virtual time exists in tests only.
// It must be called in the directory of this package.
func MeasureVirtual() (Virtual, error) {
	out, err := exec.Command("go", "test", "-count=1", "-v", "-run", "^TestVirtualMakespan$", ".").CombinedOutput()
	v := Virtual{Worst: make(map[int]VirtualWorst)}
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "|") {
			v.Table = append(v.Table, line)
		}
	}
	if len(v.Table) < 3 {
		return v, fmt.Errorf("TestVirtualMakespan gave no table: %w\n%s", err, out)
	}
	for _, row := range v.Table[2:] {
		if err := v.learn(row); err != nil {
			return v, err
		}
	}
	return v, nil
}

// learn takes in a row: workload, keys, handler, workers, look-ahead,
// head-only, and so on.
func (v Virtual) learn(row string) error {
	cells := strings.Split(strings.ReplaceAll(strings.Trim(row, "|"), " ", ""), "|")
	if len(cells) < 6 {
		return fmt.Errorf("not a row of TestVirtualMakespan: %s", row)
	}
	workers, err := strconv.Atoi(cells[3])
	if err != nil {
		return err
	}
	lookAhead, err := strconv.ParseFloat(cells[4], 64)
	if err != nil {
		return err
	}
	headOnly, err := strconv.ParseFloat(cells[5], 64)
	if err != nil {
		return err
	}
	worst := v.Worst[workers]
	v.Worst[workers] = VirtualWorst{max(worst.LookAhead, lookAhead), max(worst.HeadOnly, headOnly)}
	return nil
}
