package ordering

import "strconv"

// JobState returns the job state of the range. Its name is that of the stream
// and the range, "client/42=7-9" for example, which no event has by default;
// its positions are the first and the last number.
func (s Skipped) JobState() JobState {
	first := Position{Stream: s.Stream, Number: s.From}
	last := Position{Stream: s.Stream, Number: s.To}
	return JobState{
		Event:     shortName(first.String() + "-" + strconv.FormatUint(s.To, 10)),
		Positions: []Position{first, last},
		Status:    NeverCame,
		Error:     s.Reason,
		Started:   s.Time,
		Ended:     s.Time,
	}
}
