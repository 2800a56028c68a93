package model

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestQueueProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		service := rapid.Float64Range(1e-3, 1e6).Draw(t, "service")
		rho := rapid.Float64Range(1e-6, 0.999).Draw(t, "ρ")
		arrival := rho * service
		l, err := Length(arrival, service)
		require.NoError(t, err)
		w, err := TimeInSystem(arrival, service)
		require.NoError(t, err)
		require.InEpsilon(t, l, arrival*w.Seconds(), 1e-2, "Little's law: L = λ·W, W in whole nanoseconds")
		more, err := Length(arrival*1.0005, service)
		require.NoError(t, err)
		require.Greater(t, more, l, "what comes more often waits longer")
	})
}

func TestReplayProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		success := rapid.Float64Range(0.01, 1).Draw(t, "success")
		r := rapid.IntRange(1, 500).Draw(t, "attempts")
		fail, err := PFail(success, r)
		require.NoError(t, err)
		less, err := PFail(success, r+1)
		require.NoError(t, err)
		require.LessOrEqual(t, less, fail, "one more attempt does not harm")

		mean, err := ExpectedAttempts(success, r)
		require.NoError(t, err)
		require.InEpsilon(t, (1-fail)/success, mean, 1e-9)
		limit, err := ExpectedAttempts(success, Unbounded)
		require.NoError(t, err)
		require.LessOrEqual(t, mean, limit*(1+1e-9))
		most, err := ExpectedAttempts(success, maxAttempts)
		require.NoError(t, err)
		require.InEpsilon(t, limit, most, 1e-9, "with ever more attempts, as without a bound")

		wanted := rapid.Float64Range(1e-12, 1).Draw(t, "fail")
		r, err = AttemptsFor(success, wanted)
		require.NoError(t, err)
		fail, err = PFail(success, r)
		require.NoError(t, err)
		require.LessOrEqual(t, fail, wanted, "enough")
		if r > 1 {
			fail, err = PFail(success, r-1)
			require.NoError(t, err)
			require.Greater(t, fail, wanted, "and no more than enough")
		}
	})
}

func TestGapProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		service := rapid.Float64Range(10, 1e4).Draw(t, "service")
		arrival := rapid.Float64Range(0.01, 0.95).Draw(t, "ρ") * service
		gap := time.Duration(rapid.Int64Range(0, int64(10*time.Second)).Draw(t, "gap"))
		loss := rapid.Float64Range(0, 0.9).Draw(t, "loss")
		plain, err := TimeInSystem(arrival, service)
		require.NoError(t, err)
		behind, err := TimeBehindGaps(arrival, service, loss, gap, 0)
		require.NoError(t, err)
		longer, err := TimeBehindGaps(arrival, service, loss, gap+gap/10, 0)
		require.NoError(t, err)
		require.GreaterOrEqual(t, longer, behind-1, "a longer gap, in whole nanoseconds")
		require.GreaterOrEqual(t, behind, plain-1)
		half, err := TimeWithGaps(arrival, service, loss, gap)
		require.NoError(t, err)
		require.GreaterOrEqual(t, half, plain)
		if gap.Seconds() > 20/(service-arrival) {
			require.Greater(t, behind-plain, 2*(half-plain)-1, "another one waits at least")
		}
	})
}

func TestActiveProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		streams := rapid.IntRange(1, 1000).Draw(t, "streams")
		arrival := rapid.Float64Range(0.01, 1e5).Draw(t, "arrival")
		ttl := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "ttl"))
		exponent := rapid.Float64Range(0.01, 2).Draw(t, "exponent")
		uniform, err := ActiveUniform(ttl, arrival, streams)
		require.NoError(t, err)
		zipf, err := ActiveZipf(ttl, arrival, streams, exponent)
		require.NoError(t, err)
		require.LessOrEqual(t, uniform, float64(streams))
		require.LessOrEqual(t, uniform, arrival*ttl.Seconds()*(1+1e-9), "no more than came")
		require.LessOrEqual(t, zipf, uniform*(1+1e-9), "skew makes fewer streams active")
		longer, err := ActiveZipf(2*ttl, arrival, streams, exponent)
		require.NoError(t, err)
		require.GreaterOrEqual(t, longer, zipf)
	})
}

func TestChannelMatchesAWalk(t *testing.T) {
	c := Channel{ToBad: 0.02, ToGood: 0.1, LossGood: 0.01, LossBad: 0.7}
	loss, err := c.Loss()
	require.NoError(t, err)
	burst, err := c.MeanBurst()
	require.NoError(t, err)

	random := rand.New(rand.NewPCG(1, 2))
	const events = 1_000_000
	lost, bursts, bad, before := 0, 0, false, false
	for range events {
		if bad {
			bad = random.Float64() >= c.ToGood
		} else {
			bad = random.Float64() < c.ToBad
		}
		p := c.LossGood
		if bad {
			p = c.LossBad
		}
		now := random.Float64() < p
		if now {
			lost++
			if !before {
				bursts++
			}
		}
		before = now
	}
	require.InEpsilon(t, loss, float64(lost)/events, 0.03)
	require.InEpsilon(t, burst, float64(lost)/float64(bursts), 0.03)
}

// A stream, event by event: each starts when it is there and the one before it
// has ended.
func TestTimeBehindGapsMatchesAStream(t *testing.T) {
	for _, test := range []struct {
		arrival, loss float64 // of a service rate of 1
		gap           float64 // in times of a service
	}{
		{0.3, 0.001, 20}, {0.5, 0.001, 20}, {0.5, 0.003, 5}, {0.7, 0.001, 10}, {0.2, 0.002, 50}, {0.5, 0.02, 0}, {0.02, 0.001, 100},
	} {
		w := walk(test.arrival, test.loss, test.gap)
		predicted, err := TimeBehindGaps(test.arrival, 1, test.loss, time.Duration(test.gap*1e9), 0)
		require.NoError(t, err)
		paper, err := TimeWithGaps(test.arrival, 1, test.loss, time.Duration(test.gap*1e9))
		require.NoError(t, err)
		t.Logf("%+v: measured %.4f, predicted %.4f (%+.1f %%), equation 7 %.4f (%+.1f %%)", test, w,
			predicted.Seconds(), 100*(predicted.Seconds()/w-1), paper.Seconds(), 100*(paper.Seconds()/w-1))
		require.InEpsilon(t, w, predicted.Seconds(), 0.02)
	}
}

// walk returns the mean time in the system. A lost event comes gap after the
// next one that is not lost.
func walk(arrival, loss, gap float64) float64 {
	random := rand.New(rand.NewPCG(3, 4))
	const events = 2_000_000
	var now, ended, total float64
	var missing []float64 // when those that are lost would have come
	handle := func(came, there float64) {
		ended = math.Max(ended, there) + random.ExpFloat64()
		total += ended - came
	}
	for range events {
		now += random.ExpFloat64() / arrival
		if random.Float64() < loss {
			missing = append(missing, now)
			continue
		}
		for _, came := range missing {
			handle(came, now+gap)
		}
		missing = missing[:0]
		handle(now, now)
	}
	return total / events
}
