// Package bench compares Interlock with other ways to hand messages to workers.
//
//	go test -run '^$' -bench Dispatch .    one comparison
//	go run ./cmd/report                    all of them, into RESULTS.md and plots/
//
// The messages are made in message.go, the contenders are in contender.go and the files
// beside it. Each contender is a benchmark of its own, and all of a comparison run one
// after the other, with the same messages from one goroutine, as many workers and the
// same bound of the queue. The first one is the floor: a channel read by workers, which
// does the least that any of them must. README.md says how to read the results and how to
// add a contender.
//
// It is a module of its own, to keep the contenders' modules out of the library's.
package bench
