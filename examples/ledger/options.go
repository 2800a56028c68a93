package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/examples/ledger/internal/feed"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
)

// options is the command line.
type options struct {
	in       string
	as       string
	format   feed.Format
	mark     string
	messages int
	seed     uint64
	generate string
	schema   bool
	listen   string
	token    string
	amqp     string
	queue    string
	produce  bool

	db      string
	workers int
	policy  dispatcher.Policy
	latency time.Duration
	gap     time.Duration
	compare int

	checkpoint int

	out      string
	timeline string
	rejects  string

	started time.Time // when the program was

	touched func(ctx context.Context, a dispatcher.Access) // in tests: see service.Config
}

// What -generate takes.
const (
	generateNDJSON  = "ndjson"
	generateJournal = "journal"
)

// What -policy takes.
const (
	policyHeadOnly  = "head-only"
	policyLookAhead = "look-ahead"
)

// parseOptions reads the command line. A mistake in it is described to output,
// or by the error.
func parseOptions(args []string, output io.Writer) (*options, error) {
	o := &options{started: time.Now()}
	var policy, format, token string
	var window int
	f := flag.NewFlagSet("ledger", flag.ContinueOnError)
	var complaint strings.Builder // of the flag package, which repeats what it was given
	f.SetOutput(&complaint)
	f.Usage = func() {
		fmt.Fprintf(&complaint, "Usage: ledger [flags]\n\nRuns the messages of -in, or made-up ones, in parallel and checks the result.\n\n")
		f.PrintDefaults()
	}
	f.StringVar(&o.in, "in", "", "`file` of messages, - for standard input (default: made-up messages)")
	f.StringVar(&o.as, "as", "", "`name` that identifies the input when it is run again (default: its first message does, and standard input is new each time)")
	f.StringVar(&format, "format", "", "form of the input, ndjson or hledger-csv (default: by the ending of its name)")
	f.StringVar(&o.mark, "decimal-mark", "", "decimal `mark` of the numbers in CSV, a point or a comma (default: inferred from all of them, what stays ambiguous is refused)")
	f.IntVar(&o.messages, "messages", 100_000, "number of made-up messages")
	f.Uint64Var(&o.seed, "seed", 1, "seed of made-up messages: the same seed makes the same messages")
	f.StringVar(&o.generate, "generate", "", "write the made-up messages to standard output and run nothing: as `form` ndjson, or as an hledger journal with journal")
	f.BoolVar(&o.schema, "schema", false, "write the JSON Schema of a message to standard output")
	f.StringVar(&o.listen, "listen", "", "take messages over HTTP at this `address`, such as localhost:8080, instead of from an input. Without a host it is 127.0.0.1")
	f.StringVar(&token, "token", "", "`file` with the bearer token that requests to -listen must have (default: none, anybody who can reach the address may send)")
	f.StringVar(&o.amqp, "amqp", "", "take messages from a queue of the RabbitMQ broker at this `URL`, such as amqp://user:secret@localhost:5672/, and with -listen over HTTP too. Needs -db")
	f.StringVar(&o.queue, "queue", "ledger", "`name` of that queue, which is declared if it does not exist; malformed messages go to the queue of that name with .dead appended")
	f.BoolVar(&o.produce, "produce", false, "do not run the messages but send them to the queue of -amqp, numbered, in order, each at least once. The SQLite database of -db keeps what was sent: a run that was cut off resumes when it is started again on the same input and database")
	f.StringVar(&o.db, "db", "", "`path` of the SQLite database, URL of a PostgreSQL one (postgres://...), or memory for none (default: SQLite in a temporary folder). A run that was cut off resumes when it is started again on the same database and input")
	f.IntVar(&o.workers, "workers", 64, "most messages that run at the same time")
	f.StringVar(&policy, "policy", policyLookAhead, "what may start while the first message in line is blocked: head-only or look-ahead")
	f.IntVar(&window, "window", dispatcher.Policy{}.Window(), "blocked messages to look past with -policy look-ahead")
	f.DurationVar(&o.latency, "latency", 0, "time that each handler waits, as if for another service")
	f.DurationVar(&o.gap, "gap", 2*time.Second, "how long a message waits for those before it by its \"sequence\", until it is kept in the database for later")
	f.IntVar(&o.compare, "compare", 5000, "messages to run again with one worker to measure the speed-up, 0 for none")
	f.IntVar(&o.checkpoint, "checkpoint", 4096, "messages after which the database notes, each time, up to where in the input all are done: a run that is started again passes over them. 0 for never, and to read all of an input again")
	f.StringVar(&o.out, "out", "", "`file` for the balances of all accounts, as CSV")
	f.StringVar(&o.timeline, "timeline", "", "`file` for a picture, as SVG, of which message ran when")
	f.StringVar(&o.rejects, "rejects", "", "`file` for malformed and rejected messages with the reasons, as NDJSON (default: a temporary file, if there are any that were not expected)")
	if err := f.Parse(args); err != nil {
		_, _ = io.WriteString(output, redacted(complaint.String()))
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		return nil, errors.New("see -help")
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q is not a flag: the input is given with -in", f.Arg(0))
	}
	if o.amqp == "" && isSet(f, "queue") {
		return nil, errors.New("-queue needs -amqp: say where the queue is")
	}
	if err := o.checkUnused(f); err != nil {
		return nil, err
	}
	if err := o.checkFiles(); err != nil {
		return nil, err
	}
	if err := o.readToken(token); err != nil {
		return nil, err
	}
	o.format = feed.Format(format)
	return o, o.check(policy, window)
}

// readToken reads the file of -token.
func (o *options) readToken(path string) error {
	if path == "" {
		return nil
	}
	if o.listen == "" {
		return errors.New("-token needs -listen: it is for requests over HTTP")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("-token: %w", err)
	}
	if o.token = strings.TrimSpace(string(text)); o.token == "" {
		return fmt.Errorf("-token: the file %s is empty: put a long random text into it", path)
	}
	return nil
}

// isSet reports whether a flag is on the command line.
func isSet(f *flag.FlagSet, name string) (set bool) {
	f.Visit(func(given *flag.Flag) { set = set || given.Name == name })
	return set
}

// checkUnused refuses flags that would be given in vain beside others.
func (o *options) checkUnused(f *flag.FlagSet) error {
	for _, rule := range []struct {
		applies bool
		beside  string
		unused  []string
	}{
		{o.generate != "", "-generate, which only writes made-up messages", []string{
			"in", "as", "format", "decimal-mark", "listen", "token", "amqp", "queue", "produce", "db", "out", "timeline", "rejects"}},
		{o.in != "", "-in, which is run whole", []string{"messages", "seed"}},
		{o.listen != "", "-listen, which takes messages from others", []string{"messages", "seed", "as"}},
		{o.amqp != "" && !o.produce, "-amqp, which takes messages from a queue", []string{"messages", "seed", "as"}},
		{o.produce, "-produce, which runs nothing", []string{"out", "timeline"}},
	} {
		for _, name := range rule.unused {
			if rule.applies && isSet(f, name) {
				return fmt.Errorf("-%s has no use beside %s: leave one of them out", name, rule.beside)
			}
		}
	}
	return nil
}

// checkFiles refuses a file that is named twice: one would be written over the other.
func (o *options) checkFiles() error {
	type named struct{ flag, path string }
	var files []named
	for _, f := range []named{{"-in", o.in}, {"-db", o.db}, {"-out", o.out}, {"-timeline", o.timeline}, {"-rejects", o.rejects}} {
		for _, other := range files {
			if f.path != "" && isSameFile(f.path, other.path) {
				return fmt.Errorf("%s and %s are the same file, %s: name different ones", other.flag, f.flag, f.path)
			}
		}
		files = append(files, f)
	}
	return nil
}

// isSameFile reports whether two paths are those of one file, which need not be there.
// Devices and pipes are no files.
func isSameFile(a, b string) bool {
	one, errOne := os.Stat(a)
	two, errTwo := os.Stat(b)
	if errOne == nil && errTwo == nil {
		return one.Mode().IsRegular() && os.SameFile(one, two)
	}
	pathOne, _ := filepath.Abs(a) // fails if there is no current folder: then nothing can be made either
	pathTwo, _ := filepath.Abs(b)
	return errOne != nil && errTwo != nil && pathOne == pathTwo
}

// check fills in what depends on several flags, and refuses what is wrong.
func (o *options) check(policy string, window int) error {
	switch policy {
	case policyHeadOnly:
		o.policy = dispatcher.HeadOnly()
	case policyLookAhead:
		o.policy = dispatcher.LookAhead(window)
	default:
		return fmt.Errorf("-policy %q is not known: use %s or %s", policy, policyHeadOnly, policyLookAhead)
	}
	switch {
	case o.generate != "" && o.generate != generateNDJSON && o.generate != generateJournal:
		return fmt.Errorf("-generate %q is not known: use %s or %s", o.generate, generateNDJSON, generateJournal)
	case o.mark != "" && o.mark != "." && o.mark != ",":
		return fmt.Errorf("-decimal-mark %.20q is not known: use . or ,", o.mark)
	case o.in != "" && o.listen != "":
		return errors.New("-in and -listen exclude each other: run the input first, with -db, and then serve")
	case o.in != "" && o.amqp != "" && !o.produce:
		return errors.New("-in and -amqp exclude each other: run the input first, with -db, or send it to the queue with -produce")
	case o.workers < 1:
		return fmt.Errorf("-workers is %d: use 1 or more", o.workers)
	case window < 0:
		return fmt.Errorf("-window is %d: use 0 or more", window)
	case o.messages < 0:
		return fmt.Errorf("-messages is %d: use 0 or more", o.messages)
	case o.latency < 0:
		return fmt.Errorf("-latency is %s: use 0 or more", o.latency)
	case o.gap <= 0:
		return fmt.Errorf("-gap is %s: use more than 0", o.gap)
	case o.checkpoint < 0:
		return fmt.Errorf("-checkpoint is %d: use 0 or more", o.checkpoint)
	case o.compare < 0:
		return fmt.Errorf("-compare is %d: use 0 or more", o.compare)
	}
	return errors.Join(o.checkQueue(), o.checkFormat())
}

func (o *options) checkQueue() error {
	switch {
	case o.produce && o.amqp == "":
		return errors.New("-produce needs -amqp: say where the queue is")
	case o.produce && (o.db == "" || o.db == store.InMemory || store.IsURL(o.db)):
		return errors.New("-produce needs -db with the path of an SQLite database: it keeps what was sent")
	case o.produce && o.listen != "":
		return errors.New("-produce and -listen exclude each other: one sends messages, the other takes them")
	case o.produce && o.in == "-":
		return errors.New("-produce needs an input that can be read again: standard input cannot")
	case o.amqp == "":
		return nil
	case o.db == "":
		return errors.New("-amqp needs -db: a message is removed from the queue when the database has it")
	case o.queue == "":
		return errors.New("-queue is empty: give the queue a name")
	}
	if _, err := amqp.ParseURI(o.amqp); err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the URL, which has a secret
		}
		return fmt.Errorf("-amqp is not the URL of a broker, such as amqp://user:secret@localhost:5672/: %w", err)
	}
	return nil
}

func (o *options) checkFormat() (err error) {
	switch {
	case o.in == "" && o.format != "":
		return errors.New("-format says the form of an input: give that with -in")
	case o.in == "":
		return nil
	case o.format == "":
		o.format, err = feed.FormatOf(o.in)
		return err
	case o.format != feed.NDJSON && o.format != feed.HledgerCSV:
		return fmt.Errorf("-format %q is not known: use %s or %s", string(o.format), feed.NDJSON, feed.HledgerCSV)
	}
	return nil
}
