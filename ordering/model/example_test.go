package model_test

import (
	"fmt"
	"time"

	"github.com/interlock-go/interlock/ordering/model"
)

// A ledger of 200,000 accounts takes 5,000 transactions a second, each of them
// 1 ms of work with its commit. One in 10,000 does not come, and an attempt
// to have it replayed takes 50 ms and succeeds nine times in ten. How many
// workers, attempts and active streams does it take, and what does a customer
// notice?
func Example() {
	const (
		arrival = 5000.0 // of all accounts together
		service = 1000.0
		loss    = 1e-4
		success = 0.9
		busiest = 40.0 // of the busiest account
	)
	accounts := make([]model.Load, 200_000)
	for i := range accounts {
		accounts[i] = model.Load{Arrival: arrival / float64(len(accounts)), Service: service}
	}
	four, _ := model.Stable(4, accounts)
	eight, _ := model.Stable(8, accounts)
	fmt.Println("stable with 4 workers:", four, "with 8:", eight)

	attempts, _ := model.AttemptsFor(success, 1e-6)
	rate, _ := model.ReplayRate(arrival, loss, success, attempts)
	fmt.Printf("attempts for one failure in a million gaps: %d, in all %.2f a second\n", attempts, rate)

	active, _ := model.ActiveZipf(10*time.Minute, arrival, len(accounts), 1.1)
	fmt.Printf("active streams: %.0f\n", active)

	plain, _ := model.TimeInSystem(busiest, service)
	recovery, _ := model.ExpectedRecovery(2*time.Second, 50*time.Millisecond, success, attempts)
	deviation, _ := model.RecoveryDeviation(50*time.Millisecond, success, attempts)
	gaps, _ := model.TimeBehindGaps(busiest, service, loss, recovery, deviation)
	fmt.Printf("busiest account: %v, with gaps %v\n", plain.Round(10*time.Microsecond), gaps.Round(10*time.Microsecond))
	// Output:
	// stable with 4 workers: false with 8: true
	// attempts for one failure in a million gaps: 6, in all 0.56 a second
	// active streams: 145988
	// busiest account: 1.04ms, with gaps 10.28ms
}

// A gap blocks its stream: those behind the lost event wait too, and they are
// many on a busy stream.
func ExampleTimeBehindGaps() {
	const service, loss = 100, 0.001
	for _, arrival := range []float64{0.1, 1, 10, 50} {
		recovery, _ := model.ExpectedRecovery(time.Second, 100*time.Millisecond, 0.5, 5)
		paper, _ := model.TimeWithGaps(arrival, service, loss, recovery)
		deviation, _ := model.RecoveryDeviation(100*time.Millisecond, 0.5, 5)
		behind, _ := model.TimeBehindGaps(arrival, service, loss, recovery, deviation)
		fmt.Printf("%4.1f events/s: the lost event alone %6.2f ms, all %6.2f ms\n", arrival,
			float64(paper.Microseconds())/1000, float64(behind.Microseconds())/1000)
	}
	// Output:
	//  0.1 events/s: the lost event alone  11.20 ms, all  22.49 ms
	//  1.0 events/s: the lost event alone  11.29 ms, all  14.25 ms
	// 10.0 events/s: the lost event alone  12.30 ms, all  21.87 ms
	// 50.0 events/s: the lost event alone  21.19 ms, all  96.74 ms
}

// Outages: one in 10,000 events begins one, and it lasts 50 events.
func ExampleChannel() {
	c := model.Channel{ToBad: 1e-4, ToGood: 1.0 / 50, LossBad: 1}
	loss, _ := c.Loss()
	burst, _ := c.MeanBurst()
	fmt.Printf("lost: %.2f %%, %.0f at a time\n", 100*loss, burst)
	// Output: lost: 0.50 %, 50 at a time
}

func ExampleInputError() {
	_, err := model.TimeInSystem(120, 100)
	fmt.Println(err)
	_, err = model.PFail(1.5, 3)
	fmt.Println(err)
	// Output:
	// model: arrival is 120: at or above the service rate 100: unstable, the answer is infinite: lower the load or raise the capacity
	// model: success is 1.5: not a probability from 0 to 1
}
