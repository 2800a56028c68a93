// Command report runs the benchmarks and writes their results to RESULTS.md, as tables,
// and to plots/, as pictures. Run it in the directory of the module. With the flags as
// they are it takes some twenty minutes on two cores.
//
//	go run ./cmd/report                      all of them, three rounds
//	go run ./cmd/report -rounds 9            more rounds, for steadier medians
//	go run ./cmd/report -only 'SQLite|Gaps' -to /tmp/try
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

func main() {
	rounds := flag.Int("rounds", 3, "how often the benchmarks are run; the medians count")
	only := flag.String("only", "", "run the benchmarks whose names match this regular expression")
	to := flag.String("to", ".", "the folder to write RESULTS.md and plots/ to")
	note := flag.String("note", "", "what is to be said of the machine, that it was busy for example")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "%q is not a flag: name benchmarks with -only\n", flag.Arg(0))
		os.Exit(2)
	}
	if err := run(*rounds, *only, *to, *note); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(rounds int, only, to, note string) error {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	if rounds < 1 {
		return fmt.Errorf("-rounds is %d: there must be one at least", rounds)
	}
	if !slices.ContainsFunc(comparisons, func(c comparison) bool { return wanted.MatchString(c.bench) }) {
		return fmt.Errorf("-only %q: no benchmark has such a name, nothing is written", only)
	}
	if err := os.MkdirAll(filepath.Join(to, "plots"), 0o755); err != nil {
		return err
	}
	var text bytes.Buffer
	head(&text, rounds, note)
	for _, c := range comparisons {
		if !wanted.MatchString(c.bench) {
			continue
		}
		t, err := c.measure(rounds)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "\n## %s\n\n`%s`\n\n", c.title, strings.Join(c.command(), " "))
		if c.plotted != "" {
			file := "plots/" + strings.ToLower(c.name()) + ".svg"
			if err := t.plot(c.title, c.plotted, filepath.Join(to, file)); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			fmt.Fprintf(&text, "![%s](%s)\n\n", c.title, file)
		}
		t.write(&text)
	}
	return os.WriteFile(filepath.Join(to, "RESULTS.md"), text.Bytes(), 0o644)
}

func head(text *bytes.Buffer, rounds int, note string) {
	fmt.Fprintf(text, `# Results

Written by `+"`go run ./cmd/report -rounds %d`"+` on %s/%s with %d processors (%s) and
%s. Each number is the median of the rounds. [README.md](README.md) says what is measured
and how to read it.
`, rounds, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), processor(), runtime.Version())
	if note != "" {
		fmt.Fprintf(text, "\n%s\n", note)
	}
}

// processor returns the name of the processor's model, where the system tells.
func processor() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // without it, there is no name
	for line := range strings.Lines(string(info)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "of an unknown model"
}

// measure runs the benchmark round by round.
func (c comparison) measure(rounds int) (*table, error) {
	if c.once {
		rounds = 1
	}
	t := &table{}
	for round := range rounds {
		fmt.Fprintf(os.Stderr, "%s, round %d of %d\n", c.title, round+1, rounds)
		command := c.command()
		out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, out)
		}
		if err := t.read(string(out)); err != nil {
			return nil, err
		}
	}
	if len(t.rows) == 0 {
		return nil, fmt.Errorf("%s: there is no such benchmark", strings.Join(c.command(), " "))
	}
	return t, nil
}
