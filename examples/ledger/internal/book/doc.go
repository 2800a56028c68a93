// Package book is the domain of the ledger: accounts in a tree, messages that
// move money between them, the keys that each message locks and the handler
// that applies it. The handler is plain single-threaded code. That it runs in
// parallel is somebody else's business: whoever calls [Apply] makes sure that
// no two calls with conflicting claims overlap.
package book
