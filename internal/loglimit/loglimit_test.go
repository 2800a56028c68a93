package loglimit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Limit{Lines: 2, Every: time.Minute}
		assert.Zero(t, l.Withheld())
		written := 0
		for range 10 {
			ok, withheld := l.Take()
			assert.Zero(t, withheld)
			if ok {
				written++
			}
		}
		assert.Equal(t, 2, written)
		assert.Zero(t, l.Withheld(), "the interval is not over")
		time.Sleep(time.Minute)
		ok, withheld := l.Take()
		assert.True(t, ok)
		assert.Equal(t, 8, withheld)
		assert.Zero(t, l.Withheld(), "told already")

		for range 10 {
			l.Take()
		}
		time.Sleep(time.Minute)
		assert.Equal(t, 9, l.Withheld())
		assert.Zero(t, l.Withheld())
	})
}
