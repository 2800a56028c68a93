package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os/user"
	"slices"
	"strings"
	"time"
)

const usage = `interlock-operator -db PATH|URL [flags] COMMAND [arguments]

Commands that look:
  list              what is parked, what was decided, who works on it, and requests
  owners            who works on the database, or did last
  requests          the latest requests, and what became of them
  serve ADDRESS     the same as a page, at http://ADDRESS/, read-only

Commands that leave a request; TARGET is as list prints it, in quotes:
  resume TARGET     try it again
  skip TARGET       give it up, and go on behind it
  drop TARGET       give it up with all that waits behind it; of a saga: end it as it is
  retry TARGET      of a saga: at once instead of after the back-off
  undo TARGET       of a saga: undo what was done
  withdraw NUMBER   take a request back that nobody has begun to carry out

Flags, before or after the command:
  -db PATH|URL      the database: a file of SQLite, or postgres://...; required
  -consumer NAME    the consumer, or saga/NAME; default: all for commands that look, else "default"
  -why TEXT         why; required for a request
  -by NAME          who decides; default: the user of this process
  -wait DURATION    how long to wait for the service to carry a request out; default: 30s
  -json             print JSON
`

// usageError is the error for a wrong command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func wrong(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

var errHelp = errors.New("help")

// options is the command line.
type options struct {
	db, consumer string
	by, why      string
	wait         time.Duration
	json         bool
	command      string
	argument     string
}

// arguments says which commands there are, and what they take.
var arguments = map[string]string{
	"list": "", "owners": "", "requests": "", "serve": "ADDRESS",
	"resume": "TARGET", "skip": "TARGET", "drop": "TARGET", "retry": "TARGET", "undo": "TARGET", "withdraw": "NUMBER",
}

func parse(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("interlock-operator", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.db, "db", "", "")
	flags.StringVar(&o.consumer, "consumer", "", "")
	flags.StringVar(&o.by, "by", "", "")
	flags.StringVar(&o.why, "why", "", "")
	flags.DurationVar(&o.wait, "wait", 30*time.Second, "")
	flags.BoolVar(&o.json, "json", false, "")
	var words []string
	for len(args) > 0 { // flags may stand anywhere
		if err := flags.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return nil, errHelp
			}
			return nil, wrong("%v", err)
		}
		if args = flags.Args(); len(args) > 0 {
			words, args = append(words, args[0]), args[1:]
		}
	}
	if len(words) == 0 {
		return nil, wrong("there is no command")
	}
	takes, known := arguments[words[0]]
	if !known {
		return nil, wrong("%.40q is no command", words[0])
	}
	want := 1
	if takes != "" {
		want = 2
	}
	if len(words) != want {
		return nil, wrong("%s", strings.TrimSpace(fmt.Sprintf("write: %s %s", words[0], takes)))
	}
	o.command, o.argument = words[0], strings.Join(words[1:], "")
	if o.db == "" {
		return nil, wrong("-db is missing")
	}
	if o.wait < 0 {
		return nil, wrong("-wait is %v: it must not be negative", o.wait)
	}
	if o.decides() && strings.TrimSpace(o.why) == "" {
		return nil, wrong("-why is missing: say why, it is kept with what is decided")
	}
	if o.by == "" {
		if u, err := user.Current(); err == nil {
			o.by = u.Username
		}
	}
	if o.decides() && o.by == "" {
		return nil, wrong("-by is missing: say who decides")
	}
	return o, nil
}

// decides reports whether the command leaves a request, or takes one back.
func (o *options) decides() bool {
	return slices.Contains([]string{"TARGET", "NUMBER"}, arguments[o.command])
}
