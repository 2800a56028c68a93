package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Load is the load of one stream.
type Load struct {
	Arrival float64 // λ_k, events arriving per second
	Service float64 // μ_k, events that could be handled per second
}

// Utilization returns ρ = λ/μ, the fraction of time in which an event of the
// stream is being handled. At 1 and above, the stream falls behind for ever.
func Utilization(arrival, service float64) (float64, error) {
	if err := first(rate("arrival", arrival), rate("service", service)); err != nil {
		return 0, err
	}
	return arrival / service, nil
}

// Length returns L = ρ/(1-ρ), the mean number of events of a stream that are
// waiting or being handled (equation 1).
func Length(arrival, service float64) (float64, error) {
	rho, err := stable(arrival, service)
	return rho / (1 - rho), err
}

// TimeInSystem returns W = 1/(μ-λ), the mean time from an event's arrival to the
// end of its handler (equation 1).
func TimeInSystem(arrival, service float64) (time.Duration, error) {
	if _, err := stable(arrival, service); err != nil {
		return 0, err
	}
	return duration("time in system", 1/(service-arrival))
}

// stable returns the utilization if it is below 1.
func stable(arrival, service float64) (float64, error) {
	rho, err := Utilization(arrival, service)
	if err == nil && rho >= 1 {
		return 0, &InputError{"arrival", arrival, fmt.Errorf("at or above the service rate %g: %w", service, ErrUnstable)}
	}
	return rho, err
}

// Stable reports whether queues stay finite (lemma 3): each stream's utilization
// is below 1, and workers can handle more than arrives. With one service rate μ
// the latter is m·μ > Σλ_k, as in the paper. In general it is Σρ_k < m: a stream
// keeps the fraction ρ_k of one worker busy.
//
// Near this bound streams wait for workers as well, which [TimeInSystem] does
// not count.
func Stable(workers int, streams []Load) (bool, error) {
	if err := count("workers", workers, 1, maxCount); err != nil {
		return false, err
	}
	busy, each := 0.0, true
	for i, s := range streams {
		rho, err := Utilization(s.Arrival, s.Service)
		if err != nil {
			return false, fmt.Errorf("stream %d: %w", i, err)
		}
		busy += rho
		each = each && rho < 1
	}
	return each && busy < float64(workers), nil
}

// HotKeys returns the indices of the streams with ρ ≥ 1, the hottest first. No
// number of workers helps them: give them a finer key or a faster handler.
func HotKeys(streams []Load) ([]int, error) {
	var hot []int
	for i, s := range streams {
		rho, err := Utilization(s.Arrival, s.Service)
		if err != nil {
			return nil, fmt.Errorf("stream %d: %w", i, err)
		}
		if rho >= 1 {
			hot = append(hot, i)
		}
	}
	slices.SortStableFunc(hot, func(a, b int) int {
		return cmp.Compare(streams[b].Arrival/streams[b].Service, streams[a].Arrival/streams[a].Service)
	})
	return hot, nil
}

const maxCount = math.MaxInt32
