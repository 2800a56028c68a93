package model

import (
	"fmt"
	"math"
	"time"
)

// Unbounded, as a number of attempts, means until an answer comes.
const Unbounded = 0

// maxAttempts bounds R. Use Unbounded for more.
const maxAttempts = 1_000_000

// PFail returns (1-p_s)^R, the probability that all R attempts to replay an event
// fail, if each succeeds with probability success. It is the right side of
// equations 2 and 5; the published text introduces equation 2 as the probability of
// success, which is 1 - PFail.
func PFail(success float64, attempts int) (float64, error) {
	if err := checkAttempts(success, attempts); err != nil {
		return 0, err
	}
	if attempts == Unbounded {
		return 0, nil
	}
	return math.Pow(1-success, float64(attempts)), nil
}

// ExpectedAttempts returns (1-(1-p_s)^R)/p_s, the mean number of attempts for a
// lost event, including events that are given up; 1/p_s if attempts is Unbounded.
func ExpectedAttempts(success float64, attempts int) (float64, error) {
	mean, _, err := attemptMoments(success, attempts)
	return mean, err
}

// ExpectedRecovery returns T_gap + T_attempt·(1-(1-p_s)^R)/p_s (equation 3),
// the mean time from the detection of a gap until its event comes or is given up.
// A gap is detected when a later event comes: [TimeBehindGaps] includes the wait for
// that.
func ExpectedRecovery(gapTimeout, attempt time.Duration, success float64, attempts int) (time.Duration, error) {
	mean, _, err := attemptMoments(success, attempts)
	if err := first(err, notNegative("gap timeout", gapTimeout), notNegative("attempt", attempt)); err != nil {
		return 0, err
	}
	return duration("recovery", gapTimeout.Seconds()+attempt.Seconds()*mean)
}

// RecoveryDeviation returns the standard deviation of the same, if all attempts
// take the same time: that of their number, times attempt.
func RecoveryDeviation(attempt time.Duration, success float64, attempts int) (time.Duration, error) {
	mean, square, err := attemptMoments(success, attempts)
	if err := first(err, notNegative("attempt", attempt)); err != nil {
		return 0, err
	}
	return duration("recovery", attempt.Seconds()*math.Sqrt(max(0, square-mean*mean)))
}

// ReplayRate returns Λ·p_loss·(1-(1-p_s)^R)/p_s, the requests per second to the
// sources of replays; arrival is the total rate. With Unbounded it is equation 4,
// Λ·p_loss/p_s. It counts one replay for each lost event; adjacent lost events are
// requested together, so the rate is lower if losses come in bursts.
func ReplayRate(arrival, loss, success float64, attempts int) (float64, error) {
	mean, err := ExpectedAttempts(success, attempts)
	if err := first(err, rate("arrival", arrival), probability("loss", loss)); err != nil {
		return 0, err
	}
	return arrival * loss * mean, nil
}

// AttemptsFor returns the smallest R with (1-p_s)^R ≤ fail: the number of attempts
// with which an event is given up with at most the probability fail, which must be
// above 0.
func AttemptsFor(success, fail float64) (int, error) {
	if err := first(checkAttempts(success, Unbounded), probability("fail", fail)); err != nil {
		return 0, err
	}
	if fail == 0 {
		return 0, &InputError{"fail", fail, fmt.Errorf("%w: give one above 0, or use Unbounded", ErrProbability)}
	}
	n := max(1, math.Ceil(math.Log(fail)/math.Log1p(-success)))
	if n > 1 && math.Pow(1-success, n-1) <= fail { // the quotient was rounded up
		n--
	}
	if n > maxAttempts {
		return 0, &InputError{"success", success, fmt.Errorf("%w: more than %d attempts", ErrCount, maxAttempts)}
	}
	return int(n), nil
}

// checkAttempts also refuses input with an infinite number of attempts.
func checkAttempts(success float64, attempts int) error {
	if err := first(probability("success", success), count("attempts", attempts, 0, maxAttempts)); err != nil {
		return err
	}
	if success == 0 && attempts == Unbounded {
		return &InputError{"success", success, fmt.Errorf("with no bound on attempts: %w", ErrUnstable)}
	}
	return nil
}

// attemptMoments returns E[N] and E[N²] of the number of attempts N, up to the first
// success and at most R.
func attemptMoments(success float64, attempts int) (mean, square float64, err error) {
	if err := checkAttempts(success, attempts); err != nil {
		return 0, 0, err
	}
	if attempts == Unbounded {
		return 1 / success, (2 - success) / (success * success), nil
	}
	open := 1.0 // the probability that attempt n+1 is made
	for n := range attempts {
		mean += open
		square += float64(2*n+1) * open
		if open *= 1 - success; open == 0 {
			break
		}
	}
	return mean, square, nil
}
