package core

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// What waits for the store is read and written in portions.
func TestReadsAndWritesAreBounded(t *testing.T) {
	begin := func() *story {
		s := &story{t: t}
		s.begin(nil)
		return s
	}
	arrive := func(s *story, name string, numbers ...string) { s.do("arrive", append([]string{name}, numbers...)) }
	next := func(s *story) {
		s.h.queue = nil // the dispatcher takes all
		s.answerNext()
	}
	off := func(s *story) { s.do("store", []string{"off"}) }

	s := begin()
	for i := 1; i <= 400; i++ {
		name := fmt.Sprint("a", i)
		arrive(s, name, fmt.Sprint("s=", i), fmt.Sprint("t=", i))
		s.do("end", []string{name})
	}
	off(s)
	for i := 1; i <= 400; i++ {
		arrive(s, fmt.Sprint("a", i))
	}
	var looks []int
	for len(s.h.reads) > 0 {
		looks = append(looks, len(s.h.reads[0].(*Look).Events))
		next(s)
	}
	require.Equal(t, []int{1, checkChunk / 2, 400 - 1 - checkChunk/2}, looks)

	s = begin()
	off(s)
	for i := range loadChunk + 3 {
		arrive(s, fmt.Sprint("a", i), fmt.Sprintf("s%d=1", i))
	}
	var loads []int
	for len(s.h.reads) > 0 {
		loads = append(loads, len(s.h.reads[0].(*Load).Keys))
		next(s)
	}
	require.Equal(t, []int{1, loadChunk, 2}, loads)

	s = begin()
	arrive(s, "a", "s=1")
	s.do("fail", []string{"a"})
	off(s)
	for i := range writeChunk + 5 {
		arrive(s, fmt.Sprint("b", i), fmt.Sprint("s=", i+2), "size=1")
	}
	for i := range 5 {
		arrive(s, fmt.Sprint("c", i), fmt.Sprint("s=", i+1000), fmt.Sprint("size=", writeBytes/2))
	}
	arrive(s, "d", "s=2000", fmt.Sprint("size=", writeBytes+1))
	var holds []int
	for len(s.h.writes) > 0 {
		holds = append(holds, len(s.h.writes[0].(*Hold).Events))
		next(s)
	}
	require.Equal(t, []int{1, writeChunk, 5, 2, 2, 1}, holds)

	s = begin()
	for i := range writeChunk + 6 {
		arrive(s, fmt.Sprint("a", i), fmt.Sprintf("s%d=1", i), "size=1")
	}
	for i := range 3 {
		arrive(s, fmt.Sprint("b", i), fmt.Sprintf("t%d=1", i), fmt.Sprint("size=", writeBytes/2))
	}
	var wide []string
	for i := range writeStreams - 1 {
		wide = append(wide, fmt.Sprintf("u%d=1", i))
	}
	arrive(s, "c", wide...)
	arrive(s, "d", "v=1", "w=1")
	arrive(s, "e", "x=1")
	off(s)
	fail := func(name string) { s.do("fail", []string{name}) }
	for i := range writeChunk + 6 {
		fail(fmt.Sprint("a", i))
	}
	for i := range 3 {
		fail(fmt.Sprint("b", i))
	}
	for _, name := range []string{"c", "d", "e"} {
		fail(name)
	}
	var parks []int
	for len(s.h.writes) > 0 {
		if park, ok := s.h.writes[0].(*Park); ok {
			parks = append(parks, len(park.Parkings))
		}
		next(s)
	}
	require.Equal(t, []int{1, writeChunk, 5 + 2, 1 + 1, 2}, parks)
}

func TestLimitEarly(t *testing.T) {
	m := New(Config{MaxEarlyTotal: 10})
	for _, c := range []struct{ limit, total int }{{20, 10}, {5, 5}, {7, 5}, {-1, 0}} {
		m.LimitEarly(c.limit)
		require.Equal(t, c.total, m.cfg.MaxEarlyTotal)
	}
}
