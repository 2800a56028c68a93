package model

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// What one can work out by hand.
func TestByHand(t *testing.T) {
	for _, test := range []struct {
		name string
		got  func() (float64, error)
		want float64
	}{
		{"utilization 30/40", func() (float64, error) { return Utilization(30, 40) }, 0.75},
		{"length at 3/4", func() (float64, error) { return Length(30, 40) }, 3},
		{"length at 1/2", func() (float64, error) { return Length(1, 2) }, 1},
		{"W 1/(40-30)", seconds(TimeInSystem(30, 40)), 0.1},
		{"W 1/(1000-500)", seconds(TimeInSystem(500, 1000)), 0.002},

		{"fail 1/2, 3 attempts", func() (float64, error) { return PFail(0.5, 3) }, 0.125},
		{"fail 0.9, 3 attempts", func() (float64, error) { return PFail(0.9, 3) }, 0.001},
		{"fail always", func() (float64, error) { return PFail(0, 7) }, 1},
		{"fail never", func() (float64, error) { return PFail(1, 1) }, 0},
		{"fail without bound", func() (float64, error) { return PFail(0.01, Unbounded) }, 0},

		{"attempts 1/2 of 3: 1+1/2+1/4", func() (float64, error) { return ExpectedAttempts(0.5, 3) }, 1.75},
		{"attempts 1/2 without bound", func() (float64, error) { return ExpectedAttempts(0.5, Unbounded) }, 2},
		{"attempts, sure", func() (float64, error) { return ExpectedAttempts(1, 5) }, 1},
		{"attempts, in vain", func() (float64, error) { return ExpectedAttempts(0, 5) }, 5},

		{"recovery 2 s + 1.75·100 ms", seconds(ExpectedRecovery(2*time.Second, 100*ms, 0.5, 3)), 2.175},
		{"recovery without bound", seconds(ExpectedRecovery(2*time.Second, 100*ms, 0.5, Unbounded)), 2.2},
		{"its deviation without bound: variance (1-p)/p² = 2", seconds(RecoveryDeviation(100*ms, 0.5, Unbounded)), 0.1 * math.Sqrt2},
		{"its deviation: one or two, a half each", seconds(RecoveryDeviation(100*ms, 0.5, 2)), 0.05},
		{"its deviation, sure", seconds(RecoveryDeviation(100*ms, 1, 5)), 0},
		{"replay rate 10000·0.001/0.8", func() (float64, error) { return ReplayRate(10_000, 0.001, 0.8, Unbounded) }, 12.5},
		{"replay rate, 3 attempts", func() (float64, error) { return ReplayRate(10_000, 0.001, 0.5, 3) }, 17.5},

		{"W with gaps 2 ms + 1 %·2.175 s", seconds(TimeWithGaps(500, 1000, 0.01, 2175*ms)), 0.02375},
		{"W with gaps, nothing lost", seconds(TimeWithGaps(500, 1000, 0, time.Hour)), 0.002},
		{"W behind gaps, nothing lost", seconds(TimeBehindGaps(500, 1000, 0, time.Hour, time.Hour)), 0.002},
		// ρ = 1/2 and G = 1 s, in which all is worked off: E[H] = 1.001,
		// E[H²] = 1.002002, E[U] = 0.001, E[U²] = 0.000004. The lost event
		// takes 1.001 s longer, the one that shows it 1 s, those behind 502 s.
		{"W behind gaps", seconds(TimeBehindGaps(500, 1000, 1e-6, time.Second, 0)), 0.002 + 1e-6*(1.001+1+501.999)},

		{"active 1000·(1-1/e)", func() (float64, error) { return ActiveUniform(time.Second, 1000, 1000) }, 1000 * (1 - 1/math.E)},
		{"active, listed", func() (float64, error) { return ActiveStreams(time.Second, []float64{math.Ln2, 0, 1e9}) }, 1.5},
		{"active at ttl 0", func() (float64, error) { return ActiveZipf(0, 1000, 10, 1.1) }, 0},
		{"active, Zipf 1 of 2: shares 2/3 and 1/3", func() (float64, error) { return ActiveZipf(time.Second, 3*math.Ln2, 2, 1) }, 0.75 + 0.5},

		{"bad 1/(1+4)", channel(Channel.Bad, 0.01, 0.04, 0, 1), 0.2},
		{"loss 0.8·0.1 + 0.2·0.5", channel(Channel.Loss, 0.01, 0.04, 0.1, 0.5), 0.18},
		{"bad lasts 1/0.04", channel(Channel.MeanBad, 0.01, 0.04, 0, 1), 25},
		{"burst of a bad period", channel(Channel.MeanBurst, 0.01, 0.04, 0, 1), 25},
		{"burst, independent 1/(1-0.2)", channel(Channel.MeanBurst, 0.5, 0.5, 0.2, 0.2), 1.25},
		{"burst, nothing lost", channel(Channel.MeanBurst, 0.5, 0.5, 0, 0), 0},
		{"burst, bad loses half: 1/(1-0.96·0.5)", channel(Channel.MeanBurst, 0.01, 0.04, 0, 0.5), 1 / 0.52},
	} {
		got, err := test.got()
		require.NoError(t, err, test.name)
		require.InEpsilon(t, 1+test.want, 1+got, 1e-9, test.name)
	}
}

func seconds(d time.Duration, err error) func() (float64, error) {
	return func() (float64, error) { return d.Seconds(), err }
}

func channel(f func(Channel) (float64, error), toBad, toGood, lossGood, lossBad float64) func() (float64, error) {
	return func() (float64, error) { return f(Channel{toBad, toGood, lossGood, lossBad}) }
}

func TestAttemptsFor(t *testing.T) {
	for _, test := range []struct {
		success, fail float64
		want          int
	}{
		{0.5, 0.125, 3}, {0.5, 0.1249, 4}, {0.5, 1, 1}, {0.5, 0.6, 1},
		{0.9, 1e-6, 6}, {0.99, 1e-9, 5}, {1, 1e-300, 1}, {0.1, 0.01, 44},
	} {
		got, err := AttemptsFor(test.success, test.fail)
		require.NoError(t, err)
		require.Equal(t, test.want, got, "%v", test)
	}
}

func TestStable(t *testing.T) {
	for _, test := range []struct {
		name    string
		workers int
		streams []Load
		want    bool
	}{
		{"nothing to do", 1, nil, true},
		{"2·100 > 60+60", 2, []Load{{60, 100}, {60, 100}}, true},
		{"1·100 < 60+60", 1, []Load{{60, 100}, {60, 100}}, false},
		{"one too hot, workers enough", 8, []Load{{1, 100}, {100, 100}}, false},
		{"a slow one counts for what it keeps busy: 0.9 + 0.05", 1, []Load{{9, 10}, {50, 1000}}, true},
		{"0.9 + 0.2", 1, []Load{{9, 10}, {200, 1000}}, false},
	} {
		got, err := Stable(test.workers, test.streams)
		require.NoError(t, err, test.name)
		require.Equal(t, test.want, got, test.name)
	}
}

func TestHotKeys(t *testing.T) {
	hot, err := HotKeys([]Load{{1, 10}, {10, 10}, {50, 10}, {9.99, 10}, {30, 10}})
	require.NoError(t, err)
	require.Equal(t, []int{2, 4, 1}, hot)
	hot, err = HotKeys(nil)
	require.NoError(t, err)
	require.Empty(t, hot)
}

func TestBadInput(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	bad := func(_ any, err error) error { return err }
	for _, test := range []struct {
		name   string // of the input
		reason error
		err    error
	}{
		{"arrival", ErrRate, bad(Utilization(nan, 1))},
		{"arrival", ErrRate, bad(Utilization(0, 1))},
		{"arrival", ErrRate, bad(Length(-1, 1))},
		{"service", ErrRate, bad(TimeInSystem(1, inf))},
		{"service", ErrRate, bad(TimeInSystem(1, nan))},
		{"arrival", ErrUnstable, bad(Length(2, 2))},
		{"arrival", ErrUnstable, bad(TimeInSystem(3, 2))},
		{"time in system", ErrTooLong, bad(TimeInSystem(1e-10, 2e-10))},
		{"workers", ErrCount, bad(Stable(0, nil))},
		{"service", ErrRate, bad(Stable(1, []Load{{1, 2}, {1, 0}}))},
		{"arrival", ErrRate, bad(HotKeys([]Load{{nan, 2}}))},
		{"success", ErrProbability, bad(PFail(nan, 1))},
		{"success", ErrProbability, bad(PFail(1.01, 1))},
		{"attempts", ErrCount, bad(PFail(0.5, -1))},
		{"attempts", ErrCount, bad(ExpectedAttempts(0.5, math.MaxInt))},
		{"success", ErrUnstable, bad(ExpectedAttempts(0, Unbounded))},
		{"gap timeout", ErrNegative, bad(ExpectedRecovery(-1, 1, 0.5, 1))},
		{"attempt", ErrNegative, bad(ExpectedRecovery(1, -1, 0.5, 1))},
		{"recovery", ErrTooLong, bad(ExpectedRecovery(0, time.Hour, 1e-9, Unbounded))},
		{"loss", ErrProbability, bad(ReplayRate(1, -0.1, 0.5, 1))},
		{"arrival", ErrRate, bad(ReplayRate(inf, 0.1, 0.5, 1))},
		{"fail", ErrProbability, bad(AttemptsFor(0.5, 0))},
		{"fail", ErrProbability, bad(AttemptsFor(0.5, nan))},
		{"success", ErrUnstable, bad(AttemptsFor(0, 0.5))},
		{"success", ErrCount, bad(AttemptsFor(1e-9, 0.5))},
		{"loss", ErrProbability, bad(TimeWithGaps(1, 2, nan, 1))},
		{"recovery", ErrNegative, bad(TimeWithGaps(1, 2, 0.1, -1))},
		{"recovery", ErrNegative, bad(TimeBehindGaps(1, 2, 0.1, -1, 1))},
		{"deviation", ErrNegative, bad(TimeBehindGaps(1, 2, 0.1, 1, -1))},
		{"arrival", ErrUnstable, bad(TimeBehindGaps(20, 20, 0.1, time.Second, 0))},
		{"loss", ErrUnstable, bad(TimeBehindGaps(10, 20, 1, 0, 0))},
		{"attempt", ErrNegative, bad(RecoveryDeviation(-1, 0.5, 1))},
		{"ttl", ErrNegative, bad(ActiveStreams(-1, nil))},
		{"arrival", ErrRate, bad(ActiveStreams(1, []float64{nan}))},
		{"streams", ErrCount, bad(ActiveUniform(1, 1, 0))},
		{"exponent", ErrNegative, bad(ActiveZipf(1, 1, 1, nan))},
		{"exponent", ErrNegative, bad(ActiveZipf(1, 1, 1, -1))},
		{"ToBad", ErrProbability, bad(Channel{ToBad: 2}.Loss())},
		{"LossBad", ErrProbability, bad(Channel{ToBad: 1, LossBad: nan}.Loss())},
		{"ToGood", ErrProbability, bad(Channel{}.Bad())},
		{"ToGood", ErrUnstable, bad(Channel{ToBad: 1}.MeanBad())},
		{"LossBad", ErrUnstable, bad(Channel{ToBad: 1, LossBad: 1}.MeanBurst())},
	} {
		var input *InputError
		require.ErrorAs(t, test.err, &input, "%s, %v", test.name, test.reason)
		require.Equal(t, test.name, input.Name)
		require.ErrorIs(t, test.err, test.reason)
		require.ErrorContains(t, test.err, test.name)
	}
}
