package bench

import (
	"sync"
	"time"
)

// pass gives a contender's workers messages and returns how long it takes until all were
// handled.
func pass(submit func(*message), msgs []*message, done *sync.WaitGroup) time.Duration {
	done.Add(len(msgs))
	start := time.Now()
	for _, m := range msgs {
		submit(m)
	}
	done.Wait()
	return time.Since(start)
}

// makespan is how long a contender takes for messages whose handlers sleep for one to
// most milliseconds, and how many times that is the least possible: the larger of all
// handlers' time divided by the workers, and the longest chain of conflicting messages.
// Both are of the handlers' times in this run. The ratio can be below 1 for a contender
// that does not keep conflicting messages apart.
func makespan(c contender, workers, most int, msgs []*message) (elapsed time.Duration, ratio float64) {
	var done sync.WaitGroup
	begun := time.Now()
	submit, stop := c.start(workers, func(m *message) {
		m.start = time.Since(begun)
		time.Sleep(time.Duration(1+m.n*7919%most) * time.Millisecond)
		m.end = time.Since(begun)
		done.Done()
	})
	defer stop()
	elapsed = pass(submit, msgs, &done)
	var work time.Duration
	for _, m := range msgs {
		work += m.end - m.start
	}
	least := max(work/time.Duration(workers), longestChain(msgs))
	return elapsed, float64(elapsed) / float64(least)
}
