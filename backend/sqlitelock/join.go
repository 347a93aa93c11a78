package sqlitelock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Change makes changes in one transaction, each of them entirely or not at all. What is to outlast a power loss goes
// alone.
func (s *store) Change(ctx context.Context, changes []exchange.Change, answer func(int, exchange.Answer)) {
	var one [1]exchange.Answer
	answers := one[:]
	if len(changes) > 1 {
		answers = make([]exchange.Answer, len(changes))
	}
	alone, sent := len(changes) == 1, false
	err := s.change(ctx, alone && durable(changes[0]), func(t *tx) (err error) {
		sent = true
		if first, ids := exchange.Withdrawal(changes); len(ids) > 1 {
			return t.withdraw(first, ids, answers)
		}
		for i := 0; i < len(changes) && err == nil; i++ {
			if !alone && durable(changes[i]) {
				answers[i].Err = exchange.ErrAlone
				continue
			}
			if answers[i], err = t.make(changes[i]); errors.Is(err, errRow) {
				answers[i].Err, err = s.file.explain(err), nil
			}
		}
		return err
	})
	if err != nil && !sent {
		err = exchange.NotSent(err)
	}
	for i, a := range answers {
		if err != nil && a.Err != exchange.ErrAlone {
			a = exchange.Answer{Err: err}
		}
		answer(i, a)
	}
}

// durable says that a change has to outlast a power loss.
func durable(c exchange.Change) bool {
	switch c := c.(type) {
	case *exchange.Join:
		return c.Hold > 0
	case *exchange.Keep:
		return true
	}
	return false
}

// make makes a change. An error is that of the transaction.
func (t *tx) make(c exchange.Change) (a exchange.Answer, err error) {
	q, err := t.queue(c.In())
	if err != nil {
		return a, err
	}
	switch c := c.(type) {
	case *exchange.Join:
		if a.Err = t.over(c.Session); a.Err == nil {
			a.Status, a.Err = t.join(q, c)
		}
	case *exchange.Leave:
		if a.Err = t.over(c.Session); a.Err == nil {
			a.Err = q.Leave(*c)
		}
	case *exchange.Shrink:
		if a.Err = t.over(c.Session); a.Err == nil {
			a.Err = q.Shrink(c.Session, c.ID, c.Units)
		}
	case *exchange.Keep:
		if a.Err = t.over(c.Session); a.Err == nil {
			a.Err = q.Keep(c.Session, c.ID, c.For)
		}
	}
	return a, q.tail.err
}

func (t *tx) over(of exchange.Session) error {
	if t.s.lives(of.ID) {
		return nil
	}
	if err := t.s.file.same(); err != nil { // its file was removed with the others
		return fmt.Errorf("%w: %w", driver.ErrSession, err)
	}
	return driver.ErrSession
}

func (t *tx) join(q *queue, j *exchange.Join) (exchange.Status, error) {
	found := q.Ticket(j.ID) != nil
	st, err := q.Join(*j)
	if (err == driver.ErrBusy || err == driver.ErrMismatch) && q.Reap(t.s.dead) {
		st, err = q.Join(*j)
	}
	if err != nil {
		return st, err
	}
	if last := len(q.Tickets) - 1; !found && last >= 0 && q.Tickets[last].ID == j.ID {
		q.Tickets[last].Since = time.Now()
		for i, ev := range q.Events { // the reply says so
			if ev.Type == exchange.Granted && ev.ID == j.ID {
				q.Events = append(q.Events[:i], q.Events[i+1:]...)
				break
			}
		}
	}
	if st.State == exchange.Waiting {
		t.front(q, j.ID)
	}
	return t.status(st), nil
}

// front notes the sessions in front of a waiter of this client.
func (t *tx) front(q *queue, id string) {
	last := ""
	for _, p := range q.Tickets {
		if p.ID == id {
			break
		}
		if p.Session.ID != last {
			last = p.Session.ID
			t.fronts = append(t.fronts, last)
		}
	}
}

// status completes that of a ticket. Waiters far behind have no expiry timer: heartbeats settle their queue.
func (t *tx) status(st exchange.Status) exchange.Status {
	if st.Sent = t.sent; st.Ahead >= near {
		st.Due = 0
	}
	return st
}

const near = 16

// withdraw has waiters of a queue leave together.
func (t *tx) withdraw(l *exchange.Leave, ids []string, answers []exchange.Answer) error {
	q, err := t.queue(l.Queue)
	if err == nil {
		err = t.over(l.Session)
	}
	if err != nil {
		return err
	}
	for i, gone := range q.Withdraw(l.Session, ids, l.Clean) {
		if gone {
			answers[i].Err = driver.ErrGone
		}
	}
	return q.tail.err
}
