// Package inspect serves a page, and the same as JSON, that shows which messages hold which
// keys, who waits for whom and since when, and lets an operator decide about what is parked.
//
// It shows what is given to it: dispatchers, and whatever else is a [view.Source]. Mount the
// [Inspector] at any path that ends in a slash; its links are relative, and everything that
// it needs is in the program:
//
//	page, err := inspect.New(inspect.Config{Sources: []inspect.Named{{Name: "transfers", Source: d}}})
//	...
//	http.Handle("/interlock/", http.StripPrefix("/interlock", page))
//
// # Who may look, and who may act
//
// Whoever reaches the handler may look: put the authentication of your service in front of
// it. Names of messages and texts of errors are shown, and pass through [Config.Redact];
// messages and events themselves only if they are parked, by [Config.Show]. Nobody can act unless
// [Config.Authorize] is set. Actions are POST requests of the same origin, see
// [net/http.CrossOriginProtection], and each one is logged and listed with who and why. A
// source that has a database keeps them there, in the transaction of the action.
//
// # What it costs
//
// A source is looked at once a second, so that the page can say since when something
// happens, and, while somebody looks at the page, at most four times a second for all
// viewers together; less often if looking takes long, so that it is not more than a twentieth
// of the time, and once in 10 s if it takes longer than half a second. The cost for a
// dispatcher is that of [dispatcher.Dispatcher.View], with a limit of [Config.Limit] messages
// that wait.
package inspect
