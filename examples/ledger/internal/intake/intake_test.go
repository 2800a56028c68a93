package intake_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/feed"
	"github.com/interlock-go/interlock/examples/ledger/internal/intake"
	"github.com/interlock-go/interlock/examples/ledger/internal/numbering"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
	"github.com/interlock-go/interlock/lockkeys"
)

// lines is a source of messages by their notes: "!" is malformed, and one that
// begins with "#" has the numbers of its sender.
type lines struct {
	notes []string
	line  int
}

func (l *lines) Next() (feed.Item, error) {
	if l.line == len(l.notes) {
		return feed.Item{}, io.EOF
	}
	note := l.notes[l.line]
	l.line++
	if note == "!" {
		return feed.Item{}, &feed.Malformed{Line: l.line, Err: io.ErrUnexpectedEOF}
	}
	m := &book.Message{Op: book.EndOfDay, Note: note}
	if note[0] == '#' {
		if err := m.Sequence.UnmarshalText([]byte("a=1")); err != nil {
			return feed.Item{}, err
		}
	}
	return feed.Item{Line: l.line, Message: m}, nil
}

// result is what came of reading an input.
type result struct {
	id    int64
	given []string
	short bool
	end   error
}

func read(t require.TestingT, s store.Inputs, identity string, notes []string) result {
	source := intake.New(context.Background(), intake.Config{Inputs: s, Source: &lines{notes: notes}, Name: "a test", Identity: identity})
	var r result
	for {
		item, err := source.Next()
		if _, malformed := errors.AsType[*feed.Malformed](err); malformed {
			r.given = append(r.given, "!")
			continue
		}
		if err != nil {
			r.id, r.short = source.ID(), source.Short()
			if err != io.EOF {
				r.end = err
			}
			return r
		}
		require.Equal(t, notes[item.Line-1], item.Message.Note)
		r.given = append(r.given, item.Message.Note)
	}
}

func numbered(from, to int) (notes []string) {
	for i := from; i <= to; i++ {
		notes = append(notes, fmt.Sprint(i))
	}
	return notes
}

func TestInputsAreKnownByTheirMessages(t *testing.T) {
	s := store.NewMemory()
	whole := numbered(1, 3000)
	first := read(t, s, "", whole)
	require.NoError(t, first.end)
	assert.Equal(t, whole, first.given)

	for _, n := range []int{1, 2, 1023, 1024, 1025, 2048, 2999, 3000} {
		r := read(t, s, "", whole[:n])
		require.NoError(t, r.end)
		assert.Equal(t, first.id, r.id, "its first %d messages", n)
		assert.Equal(t, n < 3000, r.short, "its first %d messages", n)
		assert.Equal(t, whole[:n], r.given)
	}
	grown := read(t, s, "", numbered(1, 5000))
	require.NoError(t, grown.end)
	assert.Equal(t, first.id, grown.id)
	assert.False(t, grown.short)

	for _, n := range []int{1, 1023, 1024, 1025, 2048, 4000} {
		changed := slices.Concat(numbered(1, n), []string{"other"}, numbered(n+2, 5001))
		r := read(t, s, "", changed)
		other, ok := errors.AsType[*intake.ChangedError](r.end)
		require.True(t, ok, r.end)
		assert.Equal(t, n+1, other.Line)
		assert.EqualValues(t, n, other.Same)
		assert.NotContains(t, r.given, "other")
	}

	other := read(t, s, "", numbered(6001, 6010))
	require.NoError(t, other.end)
	assert.NotEqual(t, first.id, other.id, "one that begins with another message is another one")
	named := read(t, s, "named x", []string{"1", "other"})
	require.NoError(t, named.end)
	assert.NotEqual(t, first.id, named.id)
	again := read(t, s, "named x", []string{"1", "other", "more"})
	require.NoError(t, again.end)
	assert.Equal(t, named.id, again.id)
}

// An input whose beginning was changed is no new one, however often it is tried;
// but one of its name may be, or one that has another.
func TestChangedAtItsBeginning(t *testing.T) {
	for name, notes := range map[string][]string{
		"changed":   append([]string{"other"}, numbered(2, 2000)...),
		"put ahead": append([]string{"other"}, numbered(1, 2000)...),
		"taken off": numbered(2, 2000),
		"the half":  append([]string{"other", "another"}, numbered(3, 4)...),
	} {
		s := store.NewMemory()
		require.NoError(t, read(t, s, "", numbered(1, 2000)).end)
		for range 2 {
			r := read(t, s, "", notes)
			_, ok := errors.AsType[*intake.RewrittenError](r.end)
			require.True(t, ok, "%s: %v", name, r.end)
			assert.Empty(t, r.given)
		}
		require.NoError(t, read(t, s, "named", notes).end)
		require.NoError(t, read(t, s, "", numbered(1, 2001)).end)
	}
	s := store.NewMemory()
	require.NoError(t, read(t, s, "", []string{"1", "2", "end of day"}).end)
	require.NoError(t, read(t, s, "", []string{"3", "4", "end of day"}).end)
}

// What is malformed, and what has numbers of its own, does not count.
func TestWhatDoesNotCount(t *testing.T) {
	s := store.NewMemory()
	first := read(t, s, "", []string{"!", "#1", "1", "!", "2"})
	require.NoError(t, first.end)
	r := read(t, s, "", []string{"1", "2", "#2", "!", "3"})
	require.NoError(t, r.end)
	assert.Equal(t, first.id, r.id)
	assert.Equal(t, []string{"1", "2", "#2", "!", "3"}, r.given)
	none := read(t, s, "", slices.Repeat([]string{"#1", "!"}, 3000))
	require.NoError(t, none.end)
	assert.Zero(t, none.id)
	assert.Len(t, none.given, 6000)
}

// A store of one input is what a list of the messages that were read would say.
func TestAgainstAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := store.NewMemory()
		var known []string
		for range rapid.IntRange(1, 6).Draw(t, "runs") {
			notes := numbered(1, rapid.IntRange(1, 2100).Draw(t, "length"))
			if at := rapid.IntRange(1, 4200).Draw(t, "changed"); at < len(notes) {
				notes[at] = "other"
			}
			r := read(t, s, "", notes)
			same := 0
			for same < min(len(notes), len(known)) && notes[same] == known[same] {
				same++
			}
			if same < min(len(notes), len(known)) {
				require.Error(t, r.end)
				require.LessOrEqual(t, len(r.given), same)
				continue
			}
			require.NoError(t, r.end)
			require.Equal(t, notes, r.given)
			require.Equal(t, len(notes) < len(known), r.short)
			if len(notes) > len(known) {
				known = notes
			}
		}
	})
}

// What the store does not keep is not passed on.
func TestNothingIsPassedOnThatIsNotKept(t *testing.T) {
	full := errors.New("disk full")
	r := read(t, failing{store.NewMemory(), full}, "", numbered(1, 10))
	require.ErrorIs(t, r.end, full)
	assert.Empty(t, r.given)
}

type failing struct {
	*store.Memory
	err error
}

func (f failing) SaveDigests(context.Context, int64, int64, []byte) error { return f.err }

// places is a source of lines that goes on at a place, which is the number of lines
// before it, and counts what it is asked for. What it says has changed only reading
// all of it tells.
type places struct {
	lines
	asked   int
	changed bool
}

func (p *places) Next() (feed.Item, error) {
	p.asked++
	return p.lines.Next()
}

func (p *places) Place() ([]byte, error) {
	return []byte(fmt.Sprint(p.line, ",", p.notes[p.line-1])), nil
}

func (p *places) Seek(place []byte) error {
	var line int
	var note string
	if n, err := fmt.Sscanf(string(place), "%d,%s", &line, &note); n != 2 || line > len(p.notes) || p.notes[line-1] != note {
		return fmt.Errorf("%w: %v", feed.ErrOtherPlace, err)
	}
	p.line = line
	return nil
}

func (p *places) Check(context.Context, []byte) error {
	if p.changed {
		return feed.ErrOtherPlace
	}
	return nil
}

// numbers are what a numbering without messages is saved as.
func numbers(t *testing.T) []byte {
	text, err := numbering.New(lockkeys.Root()).Save()
	require.NoError(t, err)
	return text
}

// What is before the last checkpoint is not read again, except the first block.
func TestPassingOver(t *testing.T) {
	ctx := context.Background()
	whole := numbered(1, 10_000)
	edited := func(line int) []string {
		notes := slices.Clone(whole)
		notes[line-1] = "other"
		return notes
	}
	for name, c := range map[string]struct {
		notes   []string
		place   string // "" for the right one
		numbers []byte
		from    int // the first line that is given
		err     string
	}{
		"the same":                     {notes: whole, from: 8001},
		"grown":                        {notes: append(slices.Clone(whole), "new"), from: 8001},
		"changed in the first block":   {notes: edited(1000), from: 0, err: "line 1000: the input begins like"},
		"changed before the place":     {notes: edited(8000), from: 1, err: "line 8000: the input begins like"},
		"changed behind the place":     {notes: edited(8001), from: 0, err: "line 8001: the input begins like"},
		"cut":                          {notes: whole[:7999], from: 1},
		"another version of a place":   {notes: whole, place: "nonsense", from: 1},
		"another version of numbers":   {notes: whole, numbers: []byte("?"), from: 1},
		"odd parts in the first block": {notes: append([]string{"!"}, whole...), from: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := store.NewMemory()
			first := read(t, s, "", whole)
			require.NoError(t, first.end)
			kept := &store.Checkpoint{Messages: 8000, Line: 8000, Place: []byte("8000,8000"), Numbers: numbers(t)}
			if c.place != "" {
				kept.Place = []byte(c.place)
			}
			if c.numbers != nil {
				kept.Numbers = c.numbers
			}
			require.NoError(t, s.SaveCheckpoint(ctx, first.id, kept))
			lines := &places{lines: lines{notes: c.notes}}
			source := intake.New(ctx, intake.Config{Inputs: s, Source: lines, Name: "a test", Checkpoints: s})
			item, err := source.Next()
			for _, malformed := errors.AsType[*feed.Malformed](err); malformed; _, malformed = errors.AsType[*feed.Malformed](err) {
				item, err = source.Next()
			}
			if c.from > 0 {
				require.NoError(t, err)
				assert.Equal(t, fmt.Sprint(c.from), item.Message.Note)
			}
			for err == nil {
				_, err = source.Next()
			}
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
			} else {
				require.Equal(t, io.EOF, err)
			}
			if c.from == 8001 {
				assert.Equal(t, kept, source.Passed())
				assert.Equal(t, 1024+len(c.notes)-8000+1, lines.asked)
				assert.False(t, source.Short())
			}
		})
	}
}

// What was changed in what is passed over is told, and read the next time.
func TestPassedOverAndChanged(t *testing.T) {
	ctx := context.Background()
	s := store.NewMemory()
	first := read(t, s, "", numbered(1, 3000))
	require.NoError(t, s.SaveCheckpoint(ctx, first.id, &store.Checkpoint{Messages: 2000, Line: 2000, Place: []byte("2000,2000"), Numbers: numbers(t)}))
	source := intake.New(ctx, intake.Config{Inputs: s, Source: &places{lines: lines{notes: numbered(1, 3000)}, changed: true}, Name: "a test", Checkpoints: s})
	require.NoError(t, source.Check(ctx))
	_, err := source.Next()
	require.NoError(t, err)
	var changed *intake.PassedError
	require.ErrorAs(t, source.Check(ctx), &changed)
	assert.Equal(t, 2000, changed.Line)
	left, err := s.Checkpoint(ctx, first.id)
	require.NoError(t, err)
	assert.Nil(t, left)
}

// Places are kept after so many messages, and at the end, as long as everything counts.
func TestPlaces(t *testing.T) {
	for name, c := range map[string]struct {
		notes []string
		every int
		want  []int
	}{
		"none":            {numbered(1, 3000), 0, nil},
		"each thousand":   {numbered(1, 3000), 1000, []int{1000, 2000, 3000}},
		"at the end":      {numbered(1, 2500), 1000, []int{1000, 2000, 2500}},
		"until something": {append(append(numbered(1, 1500), "!"), numbered(1501, 3000)...), 1000, []int{1000}},
		"has numbers":     {append(append(numbered(1, 1500), "#"), numbered(1501, 3000)...), 1000, []int{1000}},
	} {
		t.Run(name, func(t *testing.T) {
			s := store.NewMemory()
			source := intake.New(context.Background(), intake.Config{Inputs: s, Source: &places{lines: lines{notes: c.notes}}, Every: c.every})
			var found []int
			for {
				item, err := source.Next()
				if err == io.EOF {
					break
				}
				if err == nil && item.Place != nil {
					found = append(found, item.Line)
				}
			}
			assert.Equal(t, c.want, found)
		})
	}
}
