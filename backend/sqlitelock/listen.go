package sqlitelock

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/rows"
	"github.com/interlock-go/interlock/internal/backoff"
)

// pollEvery is how often the file is looked at where there are no messages.
const pollEvery = 100 * time.Millisecond

// Listen has events received. They come to the mailbox at all times. Without one it looks whether the file has changed.
func (s *store) Listen(ctx context.Context, _ string, up func(), receive func(exchange.Event)) error {
	s.receiver.Store(&receive)
	up()
	version := int64(-1)
	for s.mailbox.Name == "" {
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
		before := version
		if err := s.view(ctx, func(c conn, _ time.Time) error {
			err := c.one("PRAGMA data_version", func(r *sqlite.Stmt) { version = r.ColumnInt64(0) })
			return err
		}); err == nil && version != before {
			receive(exchange.Event{Type: exchange.Wake})
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// hear has the client receive an event.
func (s *store) hear(ev exchange.Event) {
	if receive := s.receiver.Load(); receive != nil {
		(*receive)(ev)
	}
}

// A message is a list of events.
func eventOf(c *rows.Codec, ev *exchange.Event) {
	rows.Number(c, &ev.Type)
	rows.Number(c, &ev.Demand)
	rows.Text(c, &ev.ID)
	rows.Text(c, &ev.Queue)
	rows.Text(c, &ev.Cell)
	rows.Number(c, &ev.Status.Token)
	rows.Flag(c, &ev.Status.Inherited)
	rows.Flag(c, &ev.Status.Wanted)
	rows.Time(c, &ev.Status.At)
	rows.Number(c, &ev.Status.Due)
}

// again is the message for a client whose mailbox was full: it looks at the file.
var again = messageOf([]exchange.Event{{Type: exchange.Wake}})

func messageOf(events []exchange.Event) []byte {
	var c rows.Codec
	for i := range events {
		eventOf(&c, &events[i])
	}
	return c.Out
}

// open reads a message of another client.
func (s *store) open(data []byte) {
	for c := (rows.Codec{In: string(data), Reads: true}); c.In != ""; {
		var ev exchange.Event
		if eventOf(&c, &ev); c.Err == nil {
			s.hear(ev)
		}
	}
}

// perMessage is how many events fit into a datagram, whatever the names are.
const perMessage = 64

// send delivers the events of a transaction, those of a mailbox together.
func (s *store) send(events []rows.Event) {
	for i, first := range events {
		if first.Mailbox == "" { // it has been sent, or its client has no socket
			continue
		}
		var all []exchange.Event
		for j := i; j < len(events); j++ {
			if ev := &events[j]; ev.Mailbox == first.Mailbox {
				all = append(all, ev.Event)
				ev.Mailbox = ""
			}
		}
		if near, ok := s.file.clients.Load(first.Mailbox); ok {
			for _, ev := range all {
				near.(*store).hear(ev)
			}
			continue
		}
		for ; len(all) > 0; all = all[min(perMessage, len(all)):] {
			s.mailbox.Deliver(first.Mailbox, first.Queue, messageOf(all[:min(perMessage, len(all))]))
		}
	}
}

// notReceived is called for a queue when the client of one of its tickets does not receive messages any more. The
// process may be dead: the queue is settled until that is certain.
func (s *store) notReceived(queue string) {
	if queue == "" || !s.unread.Begin(queue) {
		return
	}
	s.background(func(ctx context.Context) {
		defer s.unread.End(queue)
		for pause := time.Millisecond; pause < time.Second && ctx.Err() == nil; pause *= 2 {
			_, _ = s.Settle(ctx, queue)
			_ = backoff.Sleep(ctx, pause)
		}
	})
}
