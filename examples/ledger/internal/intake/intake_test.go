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
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
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
