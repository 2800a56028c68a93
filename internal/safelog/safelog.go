// Package safelog contains the panics of loggers.
package safelog

import (
	"context"
	"log/slog"
	"os"
)

// New returns a logger that writes to l, or to slog.Default() if l is nil, and
// cannot harm its caller: a record on which it panics goes to standard error
// instead, so that it is not lost.
func New(l *slog.Logger) *slog.Logger {
	if l == nil {
		l = slog.Default()
	}
	if _, safe := l.Handler().(contained); safe {
		return l
	}
	return slog.New(contained{l.Handler()})
}

type contained struct{ slog.Handler }

func (h contained) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	defer func() {
		if recover() != nil {
			enabled = true // so that Handle reports the panic
		}
	}()
	return h.Handler.Enabled(ctx, level)
}

func (h contained) Handle(ctx context.Context, r slog.Record) (err error) {
	defer func() {
		if v := recover(); v != nil {
			r = r.Clone()
			r.AddAttrs(slog.Any("logger panicked", v))
			err = lastResort.Handle(ctx, r)
		}
	}()
	return h.Handler.Handle(ctx, r)
}

func (h contained) WithAttrs(attrs []slog.Attr) (with slog.Handler) {
	defer h.orWithout(&with)
	return contained{h.Handler.WithAttrs(attrs)}
}

func (h contained) WithGroup(name string) (with slog.Handler) {
	defer h.orWithout(&with)
	return contained{h.Handler.WithGroup(name)}
}

func (h contained) orWithout(with *slog.Handler) {
	if recover() != nil {
		*with = h
	}
}

var lastResort = slog.NewTextHandler(os.Stderr, nil)
