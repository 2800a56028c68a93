package sqlstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/interlock-go/interlock/ordering"
)

// staged is what a part of SQLite's shared transaction is to write and has not written
// yet: if the part fails, nothing of it is left. If the part is kept, it is added to
// what other parts have staged, which is written before the commit, in statements of
// many rows.
//
// It belongs to the part, even if that hangs and the writer has gone on without it.
type staged struct {
	session *session
	terms   map[partition]*termRow // that were read; nil for a partition that has none
	numbers numbers
	queue   queue
	commits []*commit // of which the job states are to be written
	events  int       // whose commits are written or staged
}

func (s *session) stage() *staged {
	return &staged{session: s, terms: map[partition]*termRow{}, numbers: numbers{}}
}

// session is what a store knows of its SQLite database: streams and terms as the open
// transaction leaves them or, if none is open, as the last commit left them. It also
// has what the parts of the open transaction have staged.
//
// No other store writes in the session. But an older copy of the database may be
// restored into it, or somebody may repair it by hand. So each transaction begins by
// asking whether another connection has committed since the last one; if so, nothing is
// known any more.
type session struct {
	version int64 // of the database, as this connection sees it: it changes with the commits of others
	mu      struct {
		sync.Mutex // for parts that hang; all else is called by the writer
		terms      map[partition]*termRow
		numbers    numbers
	}
	dirty map[streamOf]struct{}  // streams that are to be written
	brief map[streamOf][]*commit // of which the job states are to be written, as far as they are needed
	queue queue
	empty bool // of what is to be written
}

// maxKnown bounds the streams that a session knows.
const maxKnown = 1 << 16

func newSession() *session {
	s := &session{dirty: map[streamOf]struct{}{}, brief: map[streamOf][]*commit{}, empty: true}
	s.forget()
	return s
}

// forget forgets all: the open transaction was undone, or something else writes.
func (s *session) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.terms, s.mu.numbers = map[partition]*termRow{}, numbers{}
	clear(s.dirty)
	clear(s.brief)
	s.queue.clear()
	s.empty = true
}

// is tells the session the version of the database in a transaction that begins.
func (s *session) is(version int64) {
	if s.version != version {
		s.version = version
		s.forget()
	}
}

func (s *session) term(key partition) (*termRow, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.mu.terms[key]
	return t, ok
}

// stream returns a copy of what is known of a stream, or nil.
func (s *session) stream(key streamOf) *numbered {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.mu.numbers[key]
	if n == nil {
		return nil
	}
	copied := *n
	return &copied
}

// add takes what a part has staged that was kept.
func (s *session) add(part *staged) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.mu.terms, part.terms)
	for key, n := range part.numbers {
		s.mu.numbers[key] = n
		if n.changed {
			s.dirty[key] = struct{}{}
			s.empty = false
		}
	}
	for _, c := range part.commits {
		if c.isOfBrief() {
			key := streamOf{c.term.consumer, c.numbers[0].stream}
			s.brief[key] = append(s.brief[key], c)
		} else {
			s.queue.add(jobRows, c.jobRow())
		}
	}
	s.queue.addAll(&part.queue)
	s.empty = s.empty && len(part.commits) == 0 && len(part.queue.order) == 0
}

// write writes what is staged.
func (s *session) write(ctx context.Context, tx *transaction) error {
	if err := s.queue.write(ctx, tx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(s.dirty), func(a, b streamOf) int {
		return cmp.Or(cmp.Compare(a.consumer, b.consumer), cmp.Compare(a.stream, b.stream))
	})
	for _, key := range keys {
		n := s.mu.numbers[key]
		pruned, err := s.writeBrief(ctx, tx, key, n)
		if err != nil {
			return err
		}
		if len(n.was)+len(n.done) == 0 {
			s.queue.add(streamRows, []any{key.consumer, key.stream, int64(n.last), 0, pruned})
		} else if err := writeStream(ctx, tx, key, n.last, n.was, n.done); err != nil {
			return err
		} else if pruned > 0 {
			if err := prunedTo(ctx, tx, key, pruned); err != nil {
				return err
			}
		}
	}
	if err := s.queue.write(ctx, tx); err != nil {
		return err
	}
	for _, key := range keys {
		n := s.mu.numbers[key]
		if n.ends > n.ended {
			if err := endStream(ctx, tx, key, n.ends); err != nil {
				return err
			}
		}
		written := numbered{row: n.row, done: n.done, was: n.done, wrote: n.last}
		written.ended, written.spans = max(n.ended, n.ends), len(n.done)
		s.mu.numbers[key] = &written
	}
	if len(s.mu.numbers) > maxKnown {
		s.mu.numbers = numbers{}
	}
	clear(s.dirty)
	clear(s.brief)
	s.empty = true
	return nil
}

var (
	jobRows = NewRows(`INSERT INTO ordering_jobs (`+jobColumns+`, decider, reason, reply)`, 14, replaceJob)

	streamRows = NewRows(`INSERT INTO ordering_streams (consumer, stream, last, spans, pruned)`, 5,
		`ON CONFLICT (consumer, stream) DO UPDATE SET last = excluded.last, spans = excluded.spans, pruned = max(pruned, excluded.pruned)`)
)

// jobRow is the row of jobRows for an event whose numbers become done. It is in the memory
// of c.job, so a second one for the commit replaces it.
func (c *commit) jobRow() []any {
	var reply any // NULL
	if len(c.Reply) > 0 {
		reply = c.Reply
	}
	return append(c.job, clean(c.By), clean(c.Reason), reply)
}

// numbers are streams as they will be.
type numbers map[streamOf]*numbered

// streamOf identifies a stream of a consumer.
type streamOf struct {
	consumer int64
	stream   string
}

// numbered is a stream's row as it is to be written.
type numbered struct {
	row
	done    ordering.Spans // above last
	was     ordering.Spans // what the table has of them
	wrote   uint64         // the last number that the table has
	ends    uint64         // the stream's last number, if one of the events has it
	changed bool           // since the table was read or written
}
