package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/bench/rabbit"
)

func (r *report) measureRabbit() (err error) {
	r.progress("RabbitMQ")
	r.rabbit, err = MeasureRabbit(context.Background(), r.e)
	return err
}

// broker writes what publishing and consuming cost.
func (r *report) broker() {
	r.section("RabbitMQ")
	r.line(`Messages of 100 bytes and their numbers, in quorum queues, on a broker that shares
the processors. Publishing: on one channel, each message confirmed, at most 256
that are not yet. Consuming: from a queue that was filled before. The plain client
has a window of 256, acknowledges each message for itself, or half a window in one
step, and does nothing else; with the window that is interlock's default, 1024, it
does so too, or writes a row for each into a SQLite database, 128 in a transaction,
before it acknowledges. Interlock puts the events in order, has an empty handler called by eight
workers, and acknowledges as they come; or the handlers of 64 workers each write a row
into a SQLite database, together with the event's number.
`)
	r.header("", "messages per second", "times "+rabbit.Bare)
	r.rates("publishing", r.rabbit.Publish)
	r.rates("consuming", r.rabbit.Consume)
	r.line("\nThe same with one queue of %d messages.\n", backlogMsgs)
	r.header("", "messages per second", "times "+rabbit.BareMany)
	r.rates("backlog", r.rabbit.Backlog)
	r.line("\nMany publishers that each wait for the confirmation of a message before the next\n" +
		"one, on eight channels, with one consumer. What was published was measured on\n" +
		"another machine; what its median means is not said.\n")
	r.header("publishers", "contender", "messages per second", "confirmed after, median", "published")
	for _, s := range r.rabbit.Shapes {
		r.row(fmt.Sprint(s.Publishers), s.Contender, fmt.Sprintf("%.0f", s.PerSecond),
			fmt.Sprint(s.Confirm.Round(100*time.Microsecond)), fmt.Sprintf("%.0f at %v", s.Published, s.PublishedLatency))
	}
}

func (r *report) rates(what string, rows rabbit.Rows) {
	for _, row := range rows {
		r.row(what+", "+row.Contender, fmt.Sprintf("%.0f", row.PerSecond()), fmt.Sprintf("%.2f", row.Times(rows[0])))
	}
}
