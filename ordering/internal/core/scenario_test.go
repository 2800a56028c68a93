package core

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
)

var rewrite = flag.Bool("rewrite", false, "write what the scenarios give into their files")

// TestScenarios runs the stories in testdata/scenarios. A story is a list of
// commands, one a line, each followed by "----" and what the machine wants done
// because of it, in order. Lines that start with "#" are for the reader. With
// -rewrite the files are written anew.
//
//	new [gap=park|skip|stop] [skip=N] [replays=N] [early=N] [total=N] [bytes=N] [active=N] [idle=DURATION]
//	    [spread=N] [spreadstops]
//	                     begins with an empty store; the grace time is 2s
//	arrive NAME [S=N...] brings an event with number N on stream S, "E.N" for one of
//	                     epoch E, "N!" if that is the last; without numbers it is a
//	                     command with that ID; size=N gives it so many bytes,
//	                     link=N says that a replay has brought it, as the N-th of a chain
//	twin NAME OF         brings another event with the same numbers, or ID
//	end NAME             the event has run: its commit is durable
//	fail|unfinished|recalled|giveup|duplicate|refused NAME
//	                     it has ended otherwise
//	full [WHY]           the dispatcher does not take what was submitted last: never, or it has ended
//	replayed S [N-M...]  the replay of a stream that was asked for first has ended; such
//	                     numbers never were, or T:N-M of another stream
//	wait DURATION        lets time pass
//	store off|next|on    holds the store's answers back, gives the next one, or all
//	resume|skip|drop S, skipto S N
//	withdraw             the operator does not wait any more for the last one of these
//	stop, fence, abandon, restart
//	prune                has the store forget which events have made numbers done
//	held, parked         lists what the store has
//
//	run                  begins the work on an event; then, as [Run] has it:
//	begin [command] [recalled], handled ok|committed|failed|away|more|fenced, tries,
//	committed ok|failed|fenced, looked nothing|itself|done|others [away], waited,
//	ask, give-up, halt
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/scenarios/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			got := tell(t, string(text))
			if *rewrite {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
			}
			require.Equal(t, string(text), got)
		})
	}
}

// tell carries the commands of a story out and returns it as it should read.
func tell(t *testing.T, text string) string {
	s := &story{t: t}
	var out strings.Builder
	skipping := false // what the story says happened
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "----":
			skipping = true
		case line == "":
			skipping = false
			out.WriteString("\n")
		case skipping:
		case strings.HasPrefix(line, "#"):
			out.WriteString(line + "\n")
		default:
			out.WriteString(line + "\n----\n")
			s.lines = nil
			words := strings.Fields(line)
			s.do(words[0], words[1:])
			for _, l := range s.lines {
				out.WriteString(l + "\n")
			}
		}
	}
	return out.String()
}

// story is a machine, the model of a store, and what is told of them.
type story struct {
	t        *testing.T
	w        *world
	h        *host
	names    map[string]*message
	events   map[string]*Event // those that were submitted
	last     []*Event          // by the last step
	off      bool
	run      *Run
	decision *Decision // the last one of an operator
	lines    []string
}

func (s *story) begin(settings []string) {
	rnd := rand.New(rand.NewPCG(1, 1))
	s.w = &world{rnd: rnd, now: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)}
	s.w.plan = &plan{rnd: rnd, at: map[lockkeys.Key]map[uint64][]*message{}, last: map[lockkeys.Key]map[uint16]uint64{}}
	s.w.check = &checks{w: s.w}
	s.w.store = newStore()
	s.w.store.check = s.w.check
	cfg := Config{GapTimeout: 2 * time.Second, MaxSkip: 5, MaxReplays: 100, MaxEarly: 100, MaxEarlyTotal: 1000, MaxEarlyBytes: 1 << 30, MaxActive: 100, IdleTTL: time.Hour}
	for _, setting := range settings {
		name, value, _ := strings.Cut(setting, "=")
		n, _ := strconv.Atoi(value)
		switch name {
		case "gap":
			cfg.GapPolicy = map[string]GapPolicy{"park": ParkGap, "skip": SkipGap, "stop": StopAtGap}[value]
		case "skip":
			cfg.MaxSkip = n
		case "replays":
			cfg.MaxReplays = n
		case "early":
			cfg.MaxEarly = n
		case "total":
			cfg.MaxEarlyTotal = n
		case "bytes":
			cfg.MaxEarlyBytes = int64(n)
		case "active":
			cfg.MaxActive = n
		case "spread":
			cfg.MaxSpread = n
		case "idle":
			cfg.IdleTTL, _ = time.ParseDuration(value)
		case "spreadstops":
			cfg.SpreadStops = true
		default:
			s.t.Fatalf("no such setting: %s", name)
		}
	}
	s.w.cfg = cfg
	s.names, s.events = map[string]*message{}, map[string]*Event{}
	s.restart()
}

func (s *story) restart() {
	s.off = false
	s.w.hosts = nil
	s.w.story = s
	s.h = s.w.begin()
	s.answer()
}

// parked takes note of a parking.
func (s *story) parked(p ParkingState) {
	line := "park"
	for _, c := range copyOf(p).Streams {
		line += " " + span(Range{c.Key, c.Number, c.Number})
		if c.By != "" {
			for name, m := range s.names {
				if m.String() == c.By {
					line += "(" + name + ")"
				}
			}
		}
	}
	line += [...]string{"", ", a failure of", ", a gap", ", waiting", ", a contradiction of"}[p.Reason]
	for _, f := range p.Faults {
		line += " " + s.nameOf(f.Owner.(*message))
	}
	if len(p.Faults) == 0 {
		line += " " + span(p.Gap)
	}
	s.say("%s", line)
}

// told takes note of an action.
func (s *story) told(a Action) {
	switch a := a.(type) {
	case Submit:
		s.events[s.name(a.Event)] = a.Event
		s.last = append(s.last, a.Event)
		s.say("submit %s", s.name(a.Event))
	case Recall:
		s.say("recall %s", s.name(a.Event))
	case Tell:
		s.say("tell %s %s%s", s.name(a.Event), result(a.Result), because(a.Err))
		for _, c := range a.Copies {
			s.say("  and a copy of %s", s.name(c))
		}
	case Notify:
		kind := [...]string{"", "gap opened", "replay asked", "gap closed", "skipped", "refused", "parked", "resumed", "a later epoch begins, skipped"}[a.Kind]
		if a.Kind == EventRefused {
			s.say("notice: refused %s", s.name(a.Event))
		} else {
			s.say("notice: %s %s", kind, span(a.Range))
		}
	case Stop:
		s.say("stop%s", because(a.Err))
	case Replay:
		s.say("replay %s%s", span(a.Range), before(a.Before))
	case Decided:
		s.say("decided%s", because(a.Err))
	case *Load:
		s.say("load%s", keys(a.Keys))
	case *Look:
		s.say("look%s", s.namesOf(a.Events))
	case *Hold:
		s.say("hold%s", s.namesOf(a.Events))
	case *Park:
		for _, c := range a.Parkings {
			s.parked(c.ParkingState)
		}
	case *Unpark:
		s.say("unpark")
	case *ReadHeld:
		line := fmt.Sprintf("read %s from %s", a.Key, numberText(a.From))
		if a.Limit != feedPage {
			line += fmt.Sprintf(", at most %d", a.Limit)
		}
		if a.Bytes != feedBytes {
			line += fmt.Sprintf(", at most %d bytes", a.Bytes)
		}
		s.say("%s", line)
	case *Skip:
		line := "skip"
		for _, p := range a.Parts {
			line += " " + span(Range{a.Key, p.From, p.To})
		}
		s.say("%s%s%s", line, because(a.Why), of(a.Cause))
	case *GiveUp:
		line := "give up " + s.name(a.Event)
		if len(a.Slots) < len(a.Event.Slots) {
			line += " at"
			for _, slot := range a.Slots {
				line += " " + span(Range{slot.Key, slot.Number, slot.Number})
			}
		}
		s.say("%s%s%s", line, because(a.Why), of(a.Cause))
	case *Forget:
		s.say("forget %s%s", s.name(a.Event), because(a.Why))
	}
}

func (s *story) say(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

func result(r Result) string {
	return [...]string{"", "applied", "duplicate", "given up", "held", "refused", "failed", "recalled", "unfinished"}[r]
}

func before(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and %d before", n)
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + strings.ReplaceAll(err.Error(), "\n", "; ")
}

// of shows why a stream is parked of which something is given up or skipped.
func of(cause error) string {
	if cause == nil {
		return ""
	}
	return fmt.Sprintf(" (after %s)", strings.ReplaceAll(cause.Error(), "\n", "; "))
}

func span(r Range) string {
	switch {
	case EndsEpoch(r.To):
		return fmt.Sprintf("%s:%s and all before epoch %d", r.Key, numberText(r.From), EpochOf(r.To+1))
	case r.From == r.To:
		return fmt.Sprintf("%s:%s", r.Key, numberText(r.From))
	}
	return fmt.Sprintf("%s:%s-%s", r.Key, numberText(r.From), numberText(r.To))
}

// numberText shows a number, with its epoch unless that is 0.
func numberText(n uint64) string {
	if EpochOf(n) == 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d.%d", EpochOf(n), NumberOf(n))
}

// parseNumber reads what numberText shows.
func parseNumber(text string) (n uint64, err error) {
	epoch, number, has := strings.Cut(text, ".")
	if !has {
		epoch, number = "0", text
	}
	e, err := strconv.ParseUint(epoch, 10, 16)
	if err == nil {
		n, err = strconv.ParseUint(number, 10, 64)
	}
	return Place(uint16(e), n), err
}

func keys(list []lockkeys.Key) (text string) {
	for _, k := range list {
		text += " " + k.String()
	}
	return text
}

func (s *story) nameOf(m *message) string {
	for name, other := range s.names {
		if other == m {
			return name
		}
	}
	return m.String()
}

func (s *story) name(e *Event) string { return s.nameOf(e.Owner.(*delivery).m) }

func (s *story) namesOf(events []*Event) (text string) {
	for _, e := range events {
		text += " " + s.name(e)
	}
	return text
}

// answer has the store execute what it was given, until there is no more.
func (s *story) answer() {
	for !s.off && (len(s.h.reads) > 0 || len(s.h.writes) > 0) {
		s.answerNext()
	}
}

func (s *story) answerNext() {
	if len(s.h.reads) > 0 {
		s.h.answer(&s.h.reads)
	} else {
		s.h.answer(&s.h.writes)
	}
}

func (s *story) step(in Input) {
	s.last = nil
	s.h.queue = nil // the dispatcher takes all, unless the story says that it does not
	s.h.step(in)
	s.h.queue = nil
	s.answer()
	s.h.queue = nil
}

// message returns the one with a name, or makes it.
func (s *story) message(name string, numbers []string) *message {
	if m := s.names[name]; m != nil {
		return m
	}
	m := &message{beyond: true}
	for _, number := range numbers {
		key, n, _ := strings.Cut(number, "=")
		if key == "size" {
			continue
		}
		n, end := strings.CutSuffix(n, "!")
		at, err := parseNumber(n)
		require.NoError(s.t, err)
		m.slots = append(m.slots, place{lockkeys.MustParse(key), at, end})
	}
	if len(numbers) == 0 {
		m.command = name
	}
	s.names[name] = m
	s.w.plan.add(m)
	for _, number := range numbers {
		if size, ok := strings.CutPrefix(number, "size="); ok {
			m.size, _ = strconv.ParseInt(size, 10, 64)
		}
	}
	return m
}

func (s *story) do(command string, args []string) {
	ends := map[string]Result{"end": Applied, "fail": Failed, "unfinished": Unfinished, "recalled": Recalled, "giveup": GivenUp, "duplicate": Duplicate, "refused": Refused}
	decisions := map[string]DecisionKind{"resume": Resume, "skip": SkipHead, "skipto": SkipTo, "drop": Drop}
	if r, ok := ends[command]; ok {
		s.end(args[0], r)
		return
	}
	if kind, ok := decisions[command]; ok {
		d := &Decision{Kind: kind, Key: lockkeys.MustParse(args[0]), Why: errors.New("decided")}
		if kind == SkipTo {
			d.Last, _ = parseNumber(args[1])
		}
		s.h.decisions[d] = true
		s.decision = d
		s.step(Decide{d})
		return
	}
	switch command {
	case "new":
		s.begin(args)
	case "restart":
		s.restart()
	case "arrive":
		link := 0
		args = slices.DeleteFunc(args, func(arg string) bool {
			n, ok := strings.CutPrefix(arg, "link=")
			if ok {
				link, _ = strconv.Atoi(n)
			}
			return ok
		})
		e := s.h.event(s.message(args[0], args[1:]))
		e.Owner.(*delivery).source, e.Link = true, link
		s.step(Arrived{e})
	case "prune":
		s.w.store.prune()
	case "twin":
		of := s.names[args[1]]
		m := s.names[args[0]]
		if m == nil {
			m = &message{beyond: true, slots: of.slots, command: of.command}
			s.names[args[0]] = m
			s.w.plan.add(m)
		}
		e := s.h.event(m)
		e.Owner.(*delivery).source = true
		s.step(Arrived{e})
	case "full":
		events := s.last
		var cause error
		if len(args) > 0 {
			cause = errors.New(strings.Join(args, " "))
		}
		s.step(NotSubmitted{events, cause})
	case "replayed":
		key := lockkeys.MustParse(args[0])
		i := slices.IndexFunc(s.h.replays, func(r *replay) bool { return r.Key == key })
		require.GreaterOrEqual(s.t, i, 0, "no replay of %s", key)
		in := Replayed{Range: s.h.replays[i].Range}
		s.h.replays = slices.Delete(s.h.replays, i, i+1)
		for _, r := range args[1:] {
			n := Range{Key: key}
			if other, r2, has := strings.Cut(r, ":"); has {
				n.Key, r = lockkeys.MustParse(other), r2
			}
			from, to, _ := strings.Cut(r, "-")
			n.From, _ = parseNumber(from)
			n.To, _ = parseNumber(to)
			in.NoSuch = append(in.NoSuch, n)
		}
		s.step(in)
	case "wait":
		d, err := time.ParseDuration(args[0])
		require.NoError(s.t, err)
		s.w.now = s.w.now.Add(d)
		s.step(Ticked{})
	case "store":
		if args[0] == "next" {
			s.answerNext()
			break
		}
		s.off = args[0] == "off"
		s.answer()
	case "withdraw":
		s.say("%v", s.h.m.Withdraw(s.decision))
		delete(s.h.decisions, s.decision)
	case "stop":
		s.step(Stopped{errors.New("shut down")})
	case "fence":
		s.step(Fenced{errFenced})
	case "abandon":
		s.off = true
		s.step(Abandoned{errors.New("over")})
	case "held":
		for _, m := range s.w.store.held {
			s.say("%s", s.nameOf(m))
		}
	case "parked":
		for _, p := range s.w.parkings() {
			s.parked(p)
		}
	default:
		s.doRun(command, args)
	}
}

func (s *story) end(name string, r Result) {
	e := s.events[name]
	require.NotNil(s.t, e, "%s was not submitted", name)
	delete(s.events, name)
	e.Outcome = r
	switch r {
	case Applied, Duplicate: // by this run, or by one before
		if err := s.w.store.commit(s.h.term, e, processed); r != Duplicate || !errors.Is(err, errDuplicate) {
			require.NoError(s.t, err)
		}
	case GivenUp:
		require.NoError(s.t, s.w.store.commit(s.h.term, e, givenUp))
	case Failed:
		e.Cause = errors.New("boom")
	}
	s.step(Ended{e})
}

// doRun is one input of a run, and its answer.
func (s *story) doRun(command string, args []string) {
	has := func(word string) bool {
		for _, a := range args {
			if a == word {
				return true
			}
		}
		return false
	}
	boom := errors.New("boom")
	var step RunStep
	switch command {
	case "run":
		s.run = &Run{}
		return
	case "tries":
		s.run.Tries()
		return
	case "begin":
		step = s.run.Begin(has("command"), has("recalled"))
	case "handled":
		trouble := map[string]Trouble{"ok": None, "committed": None, "failed": Failing, "away": StoreAway, "more": WantsMore, "fenced": FencedOff}[args[0]]
		var err error
		if trouble != None {
			err = boom
		}
		step = s.run.Handled(has("committed"), trouble, err)
	case "committed":
		trouble := map[string]Trouble{"ok": None, "failed": StoreAway, "fenced": FencedOff}[args[0]]
		var err error
		if trouble != None {
			err = errAway
		}
		step = s.run.Committed(trouble, err)
	case "looked":
		known := map[string]Known{"nothing": Nothing, "itself": ByItself, "done": AsDone, "others": ByOthers}[args[0]]
		step = s.run.Looked(known, has("away"), nil)
	case "waited":
		step = s.run.Waited()
	case "ask":
		step = s.run.Ask(boom)
	case "give-up":
		step = s.run.GiveUp(boom)
	case "halt":
		step = s.run.Halt(errHalted)
	default:
		s.t.Fatalf("no such command: %s", command)
	}
	what := [...]string{"handle", "commit", "look", "wait", "retry", "end"}[step.Kind]
	if step.Kind == RunEnd {
		what += " " + result(step.Result)
	}
	s.say("%s%s (%s)", what, because(step.Err), runMoves.names[s.run.state])
}
