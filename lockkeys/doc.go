// Package lockkeys has the keys that messages lock, the rule by which two of
// them conflict, and the set that decides who may go and who waits.
//
// A [Key] names a resource as a path of segments: client/42/account/7 is an
// account of client 42. It stands for all that lies below it, and the root key
// for everything. A [Request] is a key with a [Mode], exclusive or shared, and
// a [Claim] is the requests of one message.
//
// # The rule
//
// Two requests conflict when one key contains the other (they are equal, or
// one is an ancestor of the other) and they are not both shared. Two claims
// conflict when a request of one conflicts with a request of the other. That
// is all of it, and [Conflicts] says it in code; everything else is about
// finding conflicts fast.
//
// # From a mutex to a set of keys
//
// Start with one mutex, held while a message is handled. It is correct, and
// nothing runs side by side.
//
// Take a mutex per key. Messages for different accounts now run side by side,
// but a message that needs a whole client has no key to lock: its accounts are
// many, and some do not exist yet.
//
// Let a key be a path, and let whoever locks it exclude its ancestors and
// descendants as well. The client is a key now and covers its accounts. But a
// transfer needs two keys, and who holds one while waiting for the other can
// deadlock with the transfer that goes the opposite way.
//
// Take all keys of a message in one step or none, in the order of arrival.
// Nobody holds and waits, so there is no deadlock. A claim that cannot go yet
// stands in line with all its keys and lets no later claim that conflicts with
// it pass, so nobody starves and conflicting messages keep their order. What
// was a tree of mutexes has become a [Set] of claims: a claim in it is granted
// when it conflicts with none that was added before it and is still there.
//
// # Who must lock
//
// No function here starts a goroutine, blocks or takes a lock. Keys and
// requests are values, to be used from anywhere. A [Set] with its places, and
// a [Claim], belong to one goroutine at a time: whoever shares a set guards it
// with a mutex. One is enough, since the time that [Set.Add] and [Set.Remove]
// take hardly depends on how many claims are in the set. To wait is the
// caller's part: Add tells whether a claim is granted, and Remove which others
// are granted by that.
//
// # Reading the source
//
//   - key.go, text.go, errors.go: what a key is, and its text form.
//   - request.go, claim.go: the rule, and the requests of one message.
//   - set.go: the set, and its two kinds of claims.
//   - light.go, lighttable.go, depths.go: claims that are in nobody's way. Read
//     the invariant first.
//   - intention.go, node.go, step.go: how all others wait, in one table and a
//     queue at each key.
//   - replace.go: a claim that gets into the line where others wait already.
//   - shrink.go: a claim that gives up some of its keys.
//   - index.go: the B-tree.
//   - blocker.go, conflicting.go: who waits for whom, and who is in the way.
package lockkeys
