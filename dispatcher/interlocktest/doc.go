// Package interlocktest helps to test the handlers of a dispatcher: that they are
// right in every order that the dispatcher may run them in, and that their messages
// declare all that they touch.
//
// # Orders
//
// [Run] calls a test for one seed after the other, each in a bubble of
// testing/synctest. The test submits messages to a [Round], and [Round.Dispatch] runs
// them, one step at a time. Chance decides which message that may run goes on, at
// which [dispatcher.Touch] its handler gives way to others, when the next message is
// submitted, and how much time passes in between. All of that is what the dispatcher
// allows: messages whose keys conflict run one after the other, as always. The same
// seed gives the same steps, if handlers start no goroutines of their own; a failure
// prints the seed and the history.
//
// One handler runs at a time, so the race detector sees nothing in such a round.
// Therefore the first round, named "parallel", has no seed and no steps: handlers run
// as in production, beside each other.
//
// # Declarations
//
// A handler that touches something that its message has not declared works as long as
// nobody else happens to be there. To find it without such luck, say what is touched,
// where it is touched:
//
//	func (b *bank) add(ctx context.Context, account lockkeys.Key, amount int) {
//		dispatcher.Touch(ctx, account, lockkeys.Exclusive)
//		b.balance[account] += amount
//	}
//
// In production that does nothing. In a Round, and in any other test by [Touched], it
// fails the test if the message's claim does not cover the key in that mode; as the
// spanset of CockroachDB does for the keys of its commands.
//
// Data without a key of its own, such as a total, is touched by
// [dispatcher.TouchData]. It is protected if any two messages that touch it, one of
// them writing, have claims that conflict; by which key is their affair. That is found
// as by Eraser (S. Savage et al., "Eraser: A Dynamic Data Race Detector for
// Multithreaded Programs", 1997): of each thing touched, the keys are remembered that
// all messages had in common so far. If none is left, and something was written, two
// accesses are looked for that nothing keeps apart, and both are reported. They need
// not have come near each other in the test.
//
// # One handler alone
//
// [NewCall] makes a context for calling a handler by itself, in which Hold, Holds,
// Release, Touch and InfoFrom of package dispatcher work, and tells what it did.
//
// For handlers of sequencers see package ordering/orderingtest.
package interlocktest
