package book

import "encoding/json"

// Reply is what a message that was applied answers: the sums that it was asked
// for, by commodity.
type Reply struct {
	Totals []Money `json:"totals,omitempty"`
	// Cut says that the sums are left out, since they are too many to be kept.
	Cut bool `json:"cut,omitempty"`
}

// Answer is what the sender of a message is told: the reply, or why the book
// has rejected the message.
type Answer struct {
	Reply
	Rejection *Rejection `json:"rejection,omitempty"`
}

// Err returns the rejection as an error, nil if there is none.
func (a Answer) Err() error {
	if a.Rejection == nil {
		return nil
	}
	return a.Rejection
}

// Encode returns the JSON form of the answer, with limit bytes at most; nil if
// it says no more than that the message was applied. If the sums do not fit they
// are left out.
func (a Answer) Encode(limit int) ([]byte, error) {
	if a.Rejection == nil && len(a.Totals) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(a)
	if err == nil && len(text) > limit {
		a.Reply = Reply{Cut: true}
		text, err = json.Marshal(a)
	}
	return text, err
}

// DecodeAnswer reads what [Answer.Encode] returned.
func DecodeAnswer(text []byte) (a Answer, err error) {
	if len(text) > 0 {
		err = json.Unmarshal(text, &a)
	}
	return a, err
}
