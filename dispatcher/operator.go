package dispatcher

import "context"

type operatorKey struct{}

type operator struct{ who, why string }

// WithOperator returns a context that names the operator who decides, and the
// reason. Resume, Skip and Drop of a [Dispatcher], of an ordering.Sequencer and of
// an outbox.Outbox log both, and those that have a database keep them there with
// what was given up. Either may be "".
func WithOperator(ctx context.Context, who, why string) context.Context {
	return context.WithValue(ctx, operatorKey{}, operator{who, why})
}

// OperatorOf returns the operator and the reason that [WithOperator] gave to ctx,
// "" if it did not.
func OperatorOf(ctx context.Context) (who, why string) {
	o, _ := ctx.Value(operatorKey{}).(operator)
	return o.who, o.why
}

// operatorAttrs returns what log records say of the operator in ctx.
func operatorAttrs(ctx context.Context) (attrs []any) {
	who, why := OperatorOf(ctx)
	if who != "" {
		attrs = append(attrs, "operator", who)
	}
	if why != "" {
		attrs = append(attrs, "why", why)
	}
	return attrs
}
