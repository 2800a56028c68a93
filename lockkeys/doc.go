// Package lockkeys defines the keys that messages lock, the rule by which two
// of them conflict, and the set that decides which claims are granted and which
// wait.
//
// A [Key] names a resource as a path of segments: client/42/account/7 is an
// account of client 42. It stands for its whole subtree, and the root key for
// everything. A [Request] is a key with a [Mode], exclusive or shared, and a
// [Claim] is the set of requests of one message.
//
// # The rule
//
// Two requests conflict when one key contains the other (they are equal, or one
// is an ancestor of the other) and they are not both shared. Two claims
// conflict when a request of one conflicts with a request of the other. That is
// the whole rule, and [Conflicts] states it in code; everything else is about
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
// transfer needs two keys, and one that holds the first while it waits for the
// second can deadlock with a transfer in the opposite direction.
//
// Acquire all keys of a message in one step or none, in the order of arrival.
// No claim holds keys while it waits for others, so there is no deadlock. A
// claim that cannot be granted yet waits in line with all its keys and no later
// conflicting claim overtakes it, so none starves and conflicting messages keep
// their order. The tree of mutexes has become a [Set] of claims: a claim is
// granted when it conflicts with no earlier claim that is still in the set.
//
// # Concurrency
//
// No function here starts a goroutine, blocks or takes a lock. Keys and
// requests are values and may be used from any goroutine. A [Set] with its
// places, and a [Claim], belong to one goroutine at a time: guard a shared set
// with a mutex. One mutex is enough, since the time that [Set.Add] and
// [Set.Remove] take hardly depends on the number of claims in the set. Waiting
// is left to the caller: Add reports whether a claim is granted, and Remove
// returns the places that its removal grants.
//
// # Reading the source
//
//   - key.go, text.go, errors.go: what a key is, and its text form.
//   - request.go, claim.go: the rule, and the requests of one message.
//   - set.go: the set, and its two kinds of claims.
//   - light.go, lighttable.go, depths.go: claims that block no other. Read the
//     invariant first.
//   - intention.go, node.go, step.go: how all others wait: a table of lock
//     modes, and a queue at each key.
//   - replace.go: a claim that is inserted in front of others that wait.
//   - shrink.go: a claim that gives up some of its keys.
//   - index.go: the B-tree.
//   - blocker.go, conflicting.go: which claim waits for which, and which
//     conflict.
package lockkeys
