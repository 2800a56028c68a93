// Package inspect measures what it costs a busy dispatcher to be looked at: 10,000 keys and
// 65,536 messages that wait, with and without pages that are open.
package inspect
