package model

import "fmt"

// Channel is the two-state channel of the paper (Gilbert-Elliott), for losses in
// bursts: outages, an overloaded broker. Before each event it may change its
// state; each state loses events with a probability of its own.
type Channel struct {
	ToBad    float64 // probability that good turns bad, for each event
	ToGood   float64 // probability that bad turns good, for each event
	LossGood float64 // probability that an event is lost in the good state
	LossBad  float64 // the same in the bad state
}

// Validate returns an [*InputError] if a field is not a probability, or if the
// channel never leaves either state, so that it has no steady state.
func (c Channel) Validate() error {
	if err := first(probability("ToBad", c.ToBad), probability("ToGood", c.ToGood),
		probability("LossGood", c.LossGood), probability("LossBad", c.LossBad)); err != nil {
		return err
	}
	if c.ToBad == 0 && c.ToGood == 0 {
		return &InputError{"ToGood", 0, fmt.Errorf("%w: with ToBad 0 as well, the channel never changes its state", ErrProbability)}
	}
	return nil
}

// Bad returns the steady-state fraction of events in the bad state,
// ToBad/(ToBad+ToGood).
func (c Channel) Bad() (float64, error) {
	if err := c.Validate(); err != nil {
		return 0, err
	}
	return c.ToBad / (c.ToBad + c.ToGood), nil
}

// Loss returns the steady-state fraction of lost events.
func (c Channel) Loss() (float64, error) {
	bad, err := c.Bad()
	return (1-bad)*c.LossGood + bad*c.LossBad, err
}

// MeanBad returns the mean length of a bad period in events, 1/ToGood. It is an
// error if that is infinite.
func (c Channel) MeanBad() (float64, error) {
	if err := c.Validate(); err != nil {
		return 0, err
	}
	if c.ToGood == 0 {
		return 0, &InputError{"ToGood", 0, ErrUnstable}
	}
	return 1 / c.ToGood, nil
}

// MeanBurst returns the mean number of consecutive lost events: P(lost) / P(lost,
// and the previous one was not). For independent losses it is 1/(1-p_loss);
// without any loss it is 0. It is an error if a burst never ends.
func (c Channel) MeanBurst() (float64, error) {
	loss, err := c.Loss()
	if err != nil || loss == 0 {
		return 0, err
	}
	bad := c.ToBad / (c.ToBad + c.ToGood)
	begins := (1-bad)*(1-c.LossGood)*(c.LossGood*(1-c.ToBad)+c.LossBad*c.ToBad) +
		bad*(1-c.LossBad)*(c.LossGood*c.ToGood+c.LossBad*(1-c.ToGood))
	if begins == 0 {
		return 0, &InputError{"LossBad", c.LossBad, ErrUnstable}
	}
	return loss / begins, nil
}
