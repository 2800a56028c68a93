package bench

import (
	"context"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// interlock is this library. Its bound counts running messages too.
type interlock struct{ d *dispatcher.Dispatcher[*Msg] }

func startInterlock(s Setup, policy dispatcher.Policy, h Handler) runner {
	d, err := dispatcher.New(dispatcher.Config[*Msg]{
		Keys: func(m *Msg, claim *lockkeys.Claim) error {
			claim.Exclusive(m.Keys...)
			return nil
		},
		Handler:    dispatcher.Handler[*Msg](h),
		Workers:    s.Workers,
		Policy:     policy,
		MaxPending: s.Bound,
	})
	if err != nil {
		panic(err)
	}
	return &interlock{d}
}

func (r *interlock) Submit(m *Msg) {
	if err := r.d.Submit(context.Background(), m); err != nil {
		panic(err)
	}
}

func (r *interlock) Close() {
	if err := r.d.Close(); err != nil {
		panic(err)
	}
}
