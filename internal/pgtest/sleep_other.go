//go:build !linux

package pgtest

import "time"

func sleep(d time.Duration) { time.Sleep(d) }
