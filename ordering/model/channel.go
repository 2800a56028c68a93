package model

import "fmt"

// Channel is the two-state channel of the paper, for losses that come in
// bursts (outages, an overloaded broker). Before each event it changes its
// state, or not; each state loses events with a probability of its own.
type Channel struct {
	ToBad    float64 // probability that good turns bad, for each event
	ToGood   float64 // probability that bad turns good, for each event
	LossGood float64 // probability that an event is lost in the good state
	LossBad  float64 // the same in the bad state
}

// Validate returns an [*InputError] if something is not a probability, or if
// the channel never leaves either state, so that it has no long run.
func (c Channel) Validate() error {
	if err := first(probability("ToBad", c.ToBad), probability("ToGood", c.ToGood),
		probability("LossGood", c.LossGood), probability("LossBad", c.LossBad)); err != nil {
		return err
	}
	if c.ToBad == 0 && c.ToGood == 0 {
		return &InputError{"ToGood", 0, fmt.Errorf("%w: with ToBad 0 as well, the channel stays as it began", ErrProbability)}
	}
	return nil
}

// Bad returns the part of the events that meet the bad state in the long run,
// ToBad/(ToBad+ToGood), from the balance of the changes to and fro.
func (c Channel) Bad() (float64, error) {
	if err := c.Validate(); err != nil {
		return 0, err
	}
	return c.ToBad / (c.ToBad + c.ToGood), nil
}

// Loss returns the part of the events that are lost in the long run.
func (c Channel) Loss() (float64, error) {
	bad, err := c.Bad()
	return (1-bad)*c.LossGood + bad*c.LossBad, err
}

// MeanBad returns how many events a bad period lasts in the mean: 1/ToGood. It
// is an error if that never ends.
func (c Channel) MeanBad() (float64, error) {
	if err := c.Validate(); err != nil {
		return 0, err
	}
	if c.ToGood == 0 {
		return 0, &InputError{"ToGood", 0, ErrUnstable}
	}
	return 1 / c.ToGood, nil
}

// MeanBurst returns how many events are lost one after the other in the mean,
// given that one is lost: P(lost) / P(lost, and the one before was not).
// Independent losses have 1/(1-p_loss). Without any loss it is 0; it is an
// error if a burst never ends.
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
