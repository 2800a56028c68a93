package site

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// WithChannel does something on a channel of its own.
func (s Site) WithChannel(ctx context.Context, do func(ch *amqp.Channel) error) error {
	conn, err := rabbitmq.Dial(s.AMQP, amqp.Config{})(ctx)
	if err != nil {
		return err
	}
	ch, err := conn.Channel()
	if err == nil {
		err = do(ch)
	}
	return errors.Join(err, conn.Close())
}

// Waiting returns how many messages wait in queues.
func (s Site) Waiting(ctx context.Context, queues ...string) (counts []int, err error) {
	err = s.WithChannel(ctx, func(ch *amqp.Channel) error {
		for _, name := range queues {
			q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
			if err != nil {
				return err
			}
			counts = append(counts, q.Messages)
		}
		return nil
	})
	return counts, err
}

// DeadLetters takes the dead letters and says what they are, and why.
func (s Site) DeadLetters(ctx context.Context) (letters []string, err error) {
	err = s.WithChannel(ctx, func(ch *amqp.Channel) error {
		for {
			m, ok, err := ch.Get(s.DeadQueue(), true)
			if err != nil || !ok {
				return err
			}
			letters = append(letters, fmt.Sprintf("%s, from queue %v: %v", m.MessageId, m.Headers[rabbitmq.QueueHeader], m.Headers[rabbitmq.ReasonHeader]))
		}
	})
	return letters, err
}
