package dispatcher

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/interlock-go/interlock/lockkeys"
)

// Touch says that the handler is about to read (Shared) or to write (Exclusive)
// what a key stands for. In production it does nothing, and costs a look at the
// context; tests switch it on, to find keys that were not declared:
//
//   - With [Config.Strict], a key that the message's claim does not cover in this
//     mode fails the message, as with [Holds].
//   - [Config.Touched] is told of every call, with the claim and the place of the
//     call. Package interlocktest has one that fails the test.
//
// Call it where the data is read or written, a repository for example, and not where
// the keys are declared: so it finds it if the two differ. A key need not exist in
// any claim; one for an ancestor covers it. ctx is as for [Holds]; with any other
// context Touch does nothing.
func Touch(ctx context.Context, key lockkeys.Key, mode lockkeys.Mode) {
	if s := checked(ctx); s != nil {
		s.touch(ctx, Access{Key: key, Mode: mode})
	}
}

// TouchData is [Touch] for data that has no key of its own: a total, a cache, a row
// of another table. No claim covers it. What must hold is that any two messages that
// touch it, one of them writing, have conflicting claims, by whichever keys. That is
// a matter of all messages of a test, which Config.Touched of package interlocktest
// compares.
func TouchData(ctx context.Context, data string, mode lockkeys.Mode) {
	if s := checked(ctx); s != nil {
		s.touch(ctx, Access{Data: data, Mode: mode})
	}
}

// Access is one call of [Touch] or [TouchData], for [Config.Touched].
type Access struct {
	ID      uint64 // of the message, as in [Info]
	Attempt int    // of the message, from 1
	Name    string // of the message, by Config.Name; "" if that is not set
	// Claim is what the message holds at that moment. In a [BatchHandler] it is what
	// the messages of the batch hold together, and the rest is of the first.
	Claim  []lockkeys.Request
	Key    lockkeys.Key // with Touch
	Data   string       // with TouchData, else ""
	Mode   lockkeys.Mode
	Caller string // who called it, as file:line
	// Err is a [*NotHeldError] if the claim does not cover the key; [ErrNoHandler] if
	// the attempt is over, so that nothing is held and Name and Claim are not known;
	// else nil.
	Err error
}

// Resource returns the text form of the key, or the name of the data in quotes.
func (a Access) Resource() string {
	if a.Data != "" {
		return fmt.Sprintf("%q", a.Data)
	}
	return a.Key.String()
}

// String tells of the access in one line.
func (a Access) String() string {
	how := "written"
	if a.Mode == lockkeys.Shared {
		how = "read"
	}
	who := describe(a.Name, a.Claim)
	return fmt.Sprintf("%s %s at %s by message %d, attempt %d: %s", a.Resource(), how, a.Caller, a.ID, a.Attempt, who)
}

// ClaimOf returns what the message whose handler ctx belongs to holds: its claim
// without the keys that it has released. In a [BatchHandler] it is what the messages
// of the batch hold together. The error is that of [Holds].
func ClaimOf(ctx context.Context) ([]lockkeys.Request, error) {
	s, ok := ctx.Value(scopeKey{}).(*scope)
	if !ok || s.host.claim == nil {
		return nil, ErrNoHandler
	}
	return s.now().claim.held(s)
}

// checked returns the scope of ctx if what its handler touches is checked.
func checked(ctx context.Context) *scope {
	if s, ok := ctx.Value(scopeKey{}).(*scope); ok && s.host.checked {
		return s
	}
	return nil
}

// touch completes an access and checks it. It is called by Touch and TouchData.
func (s *scope) touch(ctx context.Context, a Access) {
	a.ID, a.Attempt, a.Caller = s.id, int(s.attempt), caller()
	s.now().claim.touch(ctx, s, a)
}

// caller returns who called Touch or TouchData, which called touch.
func caller() string {
	var at [1]uintptr
	runtime.Callers(4, at[:])
	frame, _ := runtime.CallersFrames(at[:]).Next()
	return fmt.Sprintf("%s:%d", frame.File, frame.Line)
}

// touch checks an access of the message that w runs under s.
func (w *worker[M]) touch(ctx context.Context, s *scope, a Access) {
	w.d.touched(ctx, s, a, w.running)
}

// touch checks an access of the message of h.
func (h *hold[M]) touch(ctx context.Context, s *scope, a Access) {
	h.d.touched(ctx, s, a, h.running)
}

// touched checks an access, and tells Config.Touched.
func (d *Dispatcher[M]) touched(ctx context.Context, s *scope, a Access, running func(*scope, func([]*task[M])) error) {
	var m M
	err := running(s, func(batch []*task[M]) {
		m, a.Claim = batch[0].msg, claimOf(batch)
		if a.Data == "" {
			a.Err = d.holdsLocked(batch, a.Caller, lockkeys.Request{Key: a.Key, Mode: a.Mode})
		}
	})
	if err != nil {
		a.Err = err
	} else {
		a.Name = d.name(m)
	}
	if d.cfg.Touched != nil {
		d.cfg.Touched(ctx, a)
	}
}

func (w *worker[M]) held(s *scope) (claim []lockkeys.Request, err error) {
	err = w.running(s, func(batch []*task[M]) { claim = claimOf(batch) })
	return claim, err
}

func (h *hold[M]) held(s *scope) (claim []lockkeys.Request, err error) {
	err = h.running(s, func(batch []*task[M]) { claim = claimOf(batch) })
	return claim, err
}

// claimOf returns what the messages of a batch claim together.
func claimOf[M any](batch []*task[M]) []lockkeys.Request {
	if len(batch) == 1 {
		return slices.Clone(batch[0].claim.Requests())
	}
	var all lockkeys.Claim
	for _, t := range batch {
		all.Add(t.claim.Requests()...)
	}
	return all.Requests()
}
