package model

import (
	"context"
	"fmt"
	"math"
	"time"

	predict "github.com/interlock-go/interlock/ordering/model"
)

// Row is a quantity that was predicted and measured.
type Row struct {
	Scenario, Quantity string
	Predicted          float64
	Measured           Value
	Unit               string
	Holds              bool // whether the model is meant to hold here
}

// Off is by which part the prediction is off.
func (r Row) Off() float64 { return r.Predicted/r.Measured.Mean - 1 }

// String returns the row for a table in Markdown.
func (r Row) String() string {
	return fmt.Sprintf("| %s | %s | %.4g%s | %.4g ± %.2g%s | %+.1f %% |",
		r.Scenario, r.Quantity, r.Predicted, r.Unit, r.Measured.Mean, r.Measured.Error, r.Unit, 100*r.Off())
}

// base is what the scenarios are variations of: handlers of 10 ms, half of the
// time busy, and gaps that last many of them.
var base = Scenario{
	Seed: 1, Streams: 16, Workers: 16, Arrival: 16 * 50, Service: 100, Events: 400_000,
	Channel: independent(0), Gap: 200 * time.Millisecond, Attempt: 20 * time.Millisecond, Success: 0.8, Tries: 20,
}

// with returns a variation of the base.
func with(name string, change func(s *Scenario)) Scenario {
	s := base
	s.Name = name
	change(&s)
	return s
}

// Scenario and what there is to see in it.
type comparison struct {
	Scenario
	holds bool
	rows  func(s Scenario, m *Measured) []Row
}

const loss = 0.001

func comparisons() []comparison {
	load := func(rho float64) func(s *Scenario) {
		return func(s *Scenario) { s.Arrival = rho * s.Service * float64(s.Streams) }
	}
	rare := func(s *Scenario) { s.Channel, s.Events = independent(loss), 1_000_000 }
	streams := func(skew float64) func(s *Scenario) {
		return func(s *Scenario) {
			s.Streams, s.Workers, s.Skew = 5000, 256, skew
			s.Arrival, s.Service, s.IdleTTL = 1000, 10_000, 4*time.Second
		}
	}
	return []comparison{
		{with("ρ = 0.3", load(0.3)), true, queueRows},
		{with("ρ = 0.5", load(0.5)), true, queueRows},
		{with("ρ = 0.8", load(0.8)), true, queueRows},
		{with("5,000 even streams", streams(0)), true, activeRows},
		{with("5,000 streams, Zipf 1.1", streams(1.1)), true, activeRows},
		{with("0.1 % lost", rare), true, gapRows},
		{with("0.1 % lost, ρ = 0.2", func(s *Scenario) { rare(s); load(0.2)(s) }), true, gapRows},
		{with("1 % lost, 3 attempts of 50 %", func(s *Scenario) {
			load(0.1)(s)
			s.Channel, s.Success, s.Tries = independent(10*loss), 0.5, 3
		}), true, failRows},
		{with("1 % lost", func(s *Scenario) { s.Channel = independent(10 * loss) }), false, gapRows},
		{with("1 % lost, 10 at a time", func(s *Scenario) { s.Channel = bursts(10*loss, 10) }), false, gapRows},
		{with("1 % lost, outages of 200 events", func(s *Scenario) { s.Channel, s.Shared = bursts(10*loss, 200), true }), false, gapRows},
	}
}

// Compare runs all scenarios, of a length in times of the full one. Each is run
// by play, which has to give it virtual time.
func Compare(length float64, play func(run func(ctx context.Context))) ([]Row, error) {
	var all []Row
	for _, c := range comparisons() {
		var m *Measured
		var err error
		s := c.scale(length)
		play(func(ctx context.Context) { m, err = Run(ctx, s) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		for _, r := range c.rows(s, m) {
			r.Scenario, r.Holds = c.Name, r.Holds && c.holds
			all = append(all, r)
		}
	}
	return all, nil
}

// must returns a prediction. The scenarios are fixed, so none is refused.
func must[T any](prediction T, err error) T {
	if err != nil {
		panic(err)
	}
	return prediction
}

// queueRows are about streams without gaps.
func queueRows(s Scenario, m *Measured) []Row {
	return []Row{
		{Quantity: "L (1)", Predicted: must(predict.Length(s.perStream(), s.Service)), Measured: m.Length, Holds: true},
		timeRow("W (1)", must(predict.TimeInSystem(s.perStream(), s.Service)), m.Time, true),
	}
}

// gapRows are about streams with gaps that all close.
func gapRows(s Scenario, m *Measured) []Row {
	lost, burst := must(s.Channel.Loss()), must(s.Channel.MeanBurst())
	if s.Shared { // of one stream, once it is hit
		burst = 1 + (burst-1)/float64(s.Streams)
	}
	recovery := must(predict.ExpectedRecovery(s.Gap, s.Attempt, s.Success, s.Tries))
	deviation := must(predict.RecoveryDeviation(s.Attempt, s.Success, s.Tries))
	return []Row{
		{Quantity: "part lost", Predicted: 100 * lost, Measured: m.Loss.times(100), Unit: " %", Holds: true},
		{Quantity: "lost at a time", Predicted: burst, Measured: m.Burst, Holds: true},
		timeRow("recovery (3)", recovery, m.Recovery, true),
		{Quantity: "replay attempts (4)", Predicted: must(predict.ReplayRate(s.Arrival, lost, s.Success, s.Tries)), Measured: m.Attempts, Unit: " /s", Holds: true},
		timeRow("W with gaps (7)", must(predict.TimeWithGaps(s.perStream(), s.Service, lost, recovery)), m.Time, false),
		timeRow("W with what waits behind gaps", must(predict.TimeBehindGaps(s.perStream(), s.Service, lost, recovery, deviation)), m.Time, true),
	}
}

// failRows are about gaps of which some stay open.
func failRows(s Scenario, m *Measured) []Row {
	rate := must(predict.ReplayRate(s.Arrival, must(s.Channel.Loss()), s.Success, s.Tries))
	return []Row{
		{Quantity: "P_fail (2, 5)", Predicted: 100 * must(predict.PFail(s.Success, s.Tries)), Measured: m.Fail.times(100), Unit: " %", Holds: true},
		{Quantity: "replay attempts, R of them", Predicted: rate, Measured: m.Attempts, Unit: " /s", Holds: true},
	}
}

// activeRows are about streams in memory. IdleTTL is kept to within a quarter, so it counts
// for 7/8.
func activeRows(s Scenario, m *Measured) []Row {
	active := must(predict.ActiveZipf(s.IdleTTL*7/8, s.Arrival, s.Streams, s.Skew))
	return []Row{{Quantity: "streams in memory", Predicted: active, Measured: m.Active, Holds: true}}
}

func timeRow(quantity string, predicted time.Duration, measured Value, holds bool) Row {
	return Row{Quantity: quantity, Predicted: 1000 * predicted.Seconds(), Measured: measured.times(1000), Unit: " ms", Holds: holds}
}

func (v Value) times(x float64) Value { return Value{v.Mean * x, math.Abs(v.Error * x)} }
