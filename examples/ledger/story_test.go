package main

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/ledger/internal/feed"
	"github.com/interlock-go/interlock/examples/ledger/internal/madeup"
	"github.com/interlock-go/interlock/examples/ledger/internal/producer"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
	"github.com/interlock-go/interlock/internal/rabbittest"
)

// story is a ledger that gets its messages from a producer through a queue. Its
// events may happen at the same time.
type story struct {
	name, binary string
	book         *crashBook
	made         feed.Source // of the book's input
	queue        *desk
	outbox       string // the producer's database
	producing    *rabbittest.Link
	seats        []*seat
	journal      *sql.DB
}

// seat is the place of a program that takes messages.
type seat struct {
	link *rabbittest.Link

	mu      sync.Mutex // held while the program is ended and started again
	program *exec.Cmd
	says    *voice
}

// voice is what a program says, and when it last was at work.
type voice struct {
	output
	worked atomic.Int64
}

func (v *voice) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(atWork)) {
		v.worked.Store(time.Now().UnixNano())
	}
	return v.output.Write(p)
}

func newStory(t *testing.T, broker *rabbittest.Node, name, db string, seats, messages int) *story {
	t.Helper()
	folder := t.TempDir()
	s := &story{
		name: name, binary: binary(t), book: &crashBook{db: db, input: filepath.Join(folder, "input.ndjson")},
		made: madeup.New(messages, rand.Uint64()), queue: deskAt(t, broker),
		outbox: filepath.Join(folder, "outbox.db"), producing: broker.Link(t),
	}
	kept, err := store.Open(t.Context(), db) // makes the tables
	require.NoError(t, err)
	require.NoError(t, kept.Close())
	s.journal, err = sql.Open(driverOf(db))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.journal.Close()) })
	for range seats {
		at := &seat{link: broker.Link(t)}
		s.seats = append(s.seats, at)
		require.NoError(t, s.start(at))
		t.Cleanup(func() {
			_ = at.program.Process.Kill() // it may have ended
			_ = at.program.Wait()
		})
	}
	return s
}

// start starts the program of a seat.
func (s *story) start(at *seat) error {
	at.says = &voice{}
	at.program = exec.Command(s.binary, "-amqp", at.link.URL(), "-queue", s.queue.name, "-db", s.book.db,
		"-workers", pick("1", "8", "64"), "-latency", pick("0s", "1ms", "8ms"), "-policy", pick(policyLookAhead, policyHeadOnly))
	at.program.Stdout, at.program.Stderr = at.says, at.says
	return at.program.Start()
}

func pick(from ...string) string { return from[rand.IntN(len(from))] }

// wait waits for any time up to a limit.
func wait(most time.Duration) { <-time.After(rand.N(most)) }

// waitForWork waits until another message has been applied, or the limit is
// reached.
func (s *story) waitForWork(limit time.Duration) {
	applied := func() (n int) {
		_ = s.journal.QueryRow(`SELECT coalesce(max(entry), 0) FROM journal`).Scan(&n)
		return n
	}
	before := applied()
	for end := time.Now().Add(limit); applied() == before && time.Now().Before(end); {
		<-time.After(5 * time.Millisecond)
	}
}

// killConsumer kills a program that takes messages, and starts it again.
func (s *story) killConsumer() error {
	at := s.seats[rand.IntN(len(s.seats))]
	at.mu.Lock()
	defer at.mu.Unlock()
	_ = at.program.Process.Kill() // if it has ended, that is told by the next line
	if _ = at.program.Wait(); at.program.ProcessState.Exited() {
		return fmt.Errorf("%s: a consumer ended by itself: %s", s.name, &at.says.output)
	}
	return s.start(at)
}

// handOver tells the program that is at work to end, while the others wait for
// the queue, and starts it again.
func (s *story) handOver() error {
	for _, at := range s.seats {
		at.mu.Lock()
		defer at.mu.Unlock()
	}
	last := func() *seat {
		return slices.MaxFunc(s.seats, func(a, b *seat) int { return cmp.Compare(a.says.worked.Load(), b.says.worked.Load()) })
	}
	for end := time.Now().Add(hangs); last().says.worked.Load() == 0; <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("%s: nobody is at work", s.name)
		}
	}
	working := last()
	if err := s.end(working); err != nil {
		return err
	}
	return s.start(working)
}

// end tells a program to end, which it must do in good order.
func (s *story) end(at *seat) error {
	signal := []os.Signal{syscall.SIGTERM, os.Interrupt}[rand.IntN(2)]
	if err := at.program.Process.Signal(signal); err != nil {
		return err
	}
	hurry := time.AfterFunc(hangs, func() { _ = at.program.Process.Kill() })
	defer hurry.Stop()
	if err := at.program.Wait(); err != nil || strings.Contains(at.says.String(), "✗") {
		return fmt.Errorf("%s: a consumer did not hand over: %w: %s", s.name, err, &at.says.output)
	}
	return nil
}

// cutLink cuts connections for a moment.
func (s *story) cutLink() error {
	links := []*rabbittest.Link{s.producing}
	for _, at := range s.seats {
		links = append(links, at.link)
	}
	link := links[rand.IntN(len(links))]
	link.Cut()
	wait(300 * time.Millisecond)
	link.Mend()
	return nil
}

const (
	portion = 40 // messages that are added to the input at once
	pace    = 200 * time.Millisecond
)

// feed adds messages to the input and sends them until ctx ends. Meanwhile the
// producer is killed so many times, each time to be started again.
func (s *story) feed(ctx context.Context, kills int) error {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for ctx.Err() == nil || kills > 0 {
		if err := s.write(portion); err != nil {
			return err
		}
		kill := kills > 0 && (rand.IntN(5) == 0 || ctx.Err() != nil)
		killed, err := s.produce(kill)
		if err != nil {
			return err
		}
		if killed {
			kills--
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	_, err := s.produce(false)
	return err
}

// write adds messages to the input.
func (s *story) write(n int) error {
	var text bytes.Buffer
	for range n {
		item, err := s.made.Next()
		if err == io.EOF {
			break
		}
		line, err := json.Marshal(item.Message)
		if err != nil {
			return err
		}
		text.Write(append(line, '\n'))
		s.book.messages = append(s.book.messages, item.Message)
	}
	file, err := os.OpenFile(s.book.input, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text.Bytes())
	return errors.Join(err, file.Close())
}

// produce sends what is in the input, to its end or until it is killed.
func (s *story) produce(kill bool) (killed bool, err error) {
	var says output
	program := exec.Command(s.binary, "-produce", "-in", s.book.input, "-amqp", s.producing.URL(), "-queue", s.queue.name, "-db", s.outbox)
	program.Stdout, program.Stderr = &says, &says
	if err := program.Start(); err != nil {
		return false, err
	}
	limit := hangs
	if kill {
		limit = rand.N(300 * time.Millisecond)
	}
	timer := time.AfterFunc(limit, func() { _ = program.Process.Kill() })
	defer timer.Stop()
	err = program.Wait()
	if kill && !program.ProcessState.Exited() {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s: the producer: %w: %s", s.name, err, &says)
	}
	return false, nil
}

// conclude waits until everything is done, ends the programs, and checks what
// they leave.
func (s *story) conclude(t *testing.T) {
	s.queue.requireCounts(t, 0, 0)
	for _, at := range s.seats {
		require.NoError(t, s.end(at))
	}
	p, err := producer.Open(t.Context(), s.outbox)
	require.NoError(t, err)
	s.book.streams, s.book.most, s.book.queued = p.Streams(), producer.MaxStreams, true
	require.NoError(t, p.Close())
	s.book.verify(t)
	t.Logf("%d messages", len(s.book.messages))
}
