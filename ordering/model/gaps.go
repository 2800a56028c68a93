package model

import (
	"fmt"
	"math"
	"time"
)

// TimeWithGaps returns W = 1/(μ-λ) + p_loss·E[T_recovery] (equation 7), the mean
// time in the system if each event is lost with probability loss and recovered
// after recovery, see [ExpectedRecovery].
//
// It counts only the wait of the lost event, which is at most half of the time that
// gaps add, and a tiny part on a busy stream: the event that reveals the gap waits
// as long, and so do those behind it. See [TimeBehindGaps].
func TimeWithGaps(arrival, service, loss float64, recovery time.Duration) (time.Duration, error) {
	_, err := stable(arrival, service)
	if err := first(err, probability("loss", loss), notNegative("recovery", recovery)); err != nil {
		return 0, err
	}
	return duration("time in system", 1/(service-arrival)+loss*recovery.Seconds())
}

// TimeBehindGaps returns the mean time in the system if each event is lost with
// probability loss and recovered; recovery and deviation are the mean and the
// standard deviation of the time from the detection of the gap to the recovery,
// see [ExpectedRecovery] and [RecoveryDeviation]. It counts all waits: of the lost
// event, of the one that reveals the gap and of those behind them.
//
// # Derivation
//
// An event is lost at 0. The next one comes at X, after 1/λ on average, and reveals
// the gap; the lost one comes G later, the recovery. Meanwhile the stream processes
// its backlog: at X that is V = max(0, V0-X), where V0 is the work that an arrival
// finds in an M/M/1 queue, more than v with probability ρ·exp(-δ·v), δ = μ-λ. So V
// is more than v with probability ρ²·exp(-δ·v). The handler of the event that
// reveals the gap starts H = max(V, G) + S after X, where S is the lost one's
// service time; without the loss it would start after U, which has the distribution
// of V0. With l = ρ²·exp(-δ·G)
//
//	E[H] = G + l/δ + 1/μ
//	E[H²] = G² + 2·l·(G/δ + 1/δ²) + 2·(G + l/δ)/μ + 2/μ²
//	E[U] = ρ/δ    E[U²] = 2·ρ/δ²
//
// The lost event's time is longer by X + H - V0 - S, that of the one that reveals
// the gap by H - U. Those behind find the rest of H and of its own service S instead
// of U + S. Work of w in an M/G/1 queue makes later arrivals wait λ·w²/(2·(1-ρ))
// more in total (the step that gives the Pollaczek-Khinchine formula), which gives
//
//	λ·(E[H²] - E[U²] + 2·(E[H]-E[U])/μ) / (2·(1-ρ))
//
// The sum of the three, times p, is added to 1/(μ-λ). It is exact for a fixed G and
// rare losses; for a random G its mean is used in l, which is negligible if a
// recovery takes several service times. Overlapping gaps of one stream, a fraction
// of about λ·p·G of them, heal at the same time and cost less, so the answer is too
// large if that is not small: by some 5 % if it is 0.1.
func TimeBehindGaps(arrival, service, loss float64, recovery, deviation time.Duration) (time.Duration, error) {
	rho, err := stable(arrival, service)
	if err := first(err, probability("loss", loss), notNegative("recovery", recovery), notNegative("deviation", deviation)); err != nil {
		return 0, err
	}
	if loss == 1 {
		return 0, &InputError{"loss", loss, fmt.Errorf("no event comes that would reveal a gap: %w", ErrUnstable)}
	}
	g, sd := recovery.Seconds(), deviation.Seconds()
	s, spare := 1/service, service-arrival
	left := rho * rho * math.Exp(-spare*g) // the probability that V is more than G

	start := g + left/spare // max(V, G)
	h, hSquare := start+s, g*g+sd*sd+2*left*(g/spare+1/(spare*spare))+2*start*s+2*s*s
	u, uSquare := rho/spare, 2*rho/(spare*spare)

	lost := 1/(arrival*(1-loss)) + h - u - s
	shows := h - u
	behind := arrival * (hSquare - uSquare + 2*(h-u)*s) / (2 * (1 - rho))
	return duration("time in system", 1/spare+loss*(lost+shows+behind))
}
