//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/rows"
)

// queue is the row of a queue, in a transaction. Times of the rows are those of fileclock; only tokens, Since and Wall
// follow the wall clock. The PID of a ticket names the client that has locked the file for it.
type queue struct {
	rows.Queue
	Unlocking time.Time // until then, the client of a ticket that was taken out may have the file locked

	*tx
	anew       bool   // if the row is damaged, it begins anew: for Raise
	joins      string // the ID of the ticket that a Join makes
	unlockable error  // why the file of the queue cannot be locked, unless it is another program
}

func (q *queue) fields(c *rows.Codec) { q.Fields(c, func() { rows.Time(c, &q.Unlocking) }) }

// flocked reports whether a holder locks the file, too, which other programs may have locked:
// exclusively if it has the whole capacity, else shared. Semaphores and barriers do not.
func flocked(kind driver.Kind) bool {
	return kind == driver.Mutex || kind == driver.Election || kind == driver.RWMutex
}

// change makes a transaction of a queue, which is settled before and afterwards.
func (s *store) change(ctx context.Context, name string, f func(q *queue) error) error {
	return s.changeRow(ctx, name, &queue{}, f)
}

func (s *store) changeRow(ctx context.Context, name string, q *queue, f func(q *queue) error) error {
	return s.transact(ctx, queues, escape(name), q, func(x *tx) error {
		if x.fresh {
			*q = queue{Queue: rows.Queue{Name: name}} // a part of a damaged row may have been read
			floor, err := s.floor(ctx, 0)
			if err != nil && (!driver.IsPermanent(err) || errors.Is(err, errClosed)) {
				return err
			}
			q.Token = floor // if it is damaged, the clock's is enough
		}
		if q.Name != name {
			return driver.Permanent(fmt.Errorf("the file system takes %q and %q for the same name", name, q.Name))
		}
		if q.tx = x; x.rebooted {
			q.Reboot(x.now)
		}
		q.Token = max(q.Token, clockToken()-1)
		alive := "" // the last that was asked about: the row is settled twice
		q.Dead = func(of exchange.Session) (dead bool) {
			if dead = of.ID != alive && s.dead(of.ID); !dead {
				alive = of.ID
			}
			return dead
		}
		q.Left, q.Late = q.left, flocked(q.Kind) // a fixed time begins when the file is locked
		x.exchange = rows.Begin(q, x.now)
		err := f(q)
		if q.tell(); q.Changed {
			q.Written, q.Wall = x.now, time.Now()
		}
		return err
	})
}

const floorFile = ".floor"

// floor raises the token above which new queues begin, and returns it. Without it tokens would fall
// if the clock was set back after the row of a queue was removed.
func (s *store) floor(ctx context.Context, least uint64) (uint64, error) {
	var all queue
	err := s.transact(ctx, queues, floorFile, &all, func(x *tx) error {
		if all.Token < least {
			all.Token, x.exchange.Changed = least, true
		}
		return nil
	})
	return all.Token, err
}

// clockToken is the smallest token of now.
func clockToken() uint64 { return uint64(time.Now().UnixMicro() / 10) }

// tell has the file locked for new holders whose clients are in this process. The client of another process does so
// when it is told, once however many they are: a mailbox has room for a few messages only.
func (q *queue) tell() {
	told, looking := q.Events[:0], []string{} // mailboxes
	for _, ev := range q.Events {
		if ev.Type == exchange.Granted {
			q.durable = q.durable || ev.Status.Fixed || ev.Status.Token > clockToken() // a power loss would take it back
			switch t := q.Ticket(ev.ID); {
			case ev.ID == q.joins || t == nil || slices.Contains(looking, ev.Mailbox): // it is told so
				continue
			case q.client(t) != nil:
				ev.Event = q.granted(t)
			default:
				looking = append(looking, ev.Mailbox)
				ev.Event = exchange.Event{Type: exchange.Granted, Queue: q.Name}
			}
		}
		told = append(told, ev)
	}
	q.Events = told
}

// left is called for a ticket that was taken out: its client unlocks the file. If it has not asked for that, it is
// told so, and to look.
func (q *queue) left(t *rows.Ticket) {
	switch c := q.client(t); {
	case c != nil:
		c.locks.leave(t.ID, &q.file.idle)
		if c == q.s && t.End.After(q.now) {
			return
		}
	case t.PID != 0:
		q.Unlocking = q.now.Add(unlocksWithin)
	}
	q.Events = append(q.Events, rows.Event{Mailbox: t.Session.Mailbox, Event: exchange.Event{Type: over, ID: t.ID}})
}

// unlocksWithin is how long a Join waits for the client of a ticket that was taken out: it is told so,
// and unlocks the file. Until then the file seems to be locked by another program.
const unlocksWithin = time.Second

// drop takes out a ticket of this client, which does not ask for it.
func (q *queue) drop(t *rows.Ticket, clean bool) {
	t.End = q.now
	q.Withdraw(t.Session, []string{t.ID}, clean)
}

// find is Ticket for a call of this client. The file of a ticket that does not stand is unlocked.
func (q *queue) find(id string) *rows.Ticket {
	t := q.Ticket(id)
	if t == nil {
		q.s.locks.release(id)
	}
	return t
}

// client is the client of a ticket; nil: it is in another process.
func (q *queue) client(t *rows.Ticket) *store {
	if t.Session.Mailbox == q.s.mailbox {
		return q.s
	}
	c, _ := q.s.dir.stores.Load(t.Session.Mailbox)
	s, _ := c.(*store)
	return s
}

// granted is what a client is told of its ticket when the row grants it.
func (q *queue) granted(t *rows.Ticket) exchange.Event {
	ev := exchange.Event{Type: exchange.Granted, ID: t.ID, Status: q.status(t)}
	if ev.Status.State != exchange.Held {
		ev.Type = exchange.FirstWaiter // Await looks
	}
	return ev
}

// status is what the client of a ticket is told. A ticket is held by it when the file is locked.
func (q *queue) status(t *rows.Ticket) exchange.Status {
	c := q.client(t)
	blocked := t.Held && flocked(q.Kind) && c != nil && !q.lock(c, t)
	st := q.Look(t.Session, t.ID, false)
	if st.Sent = q.sent; blocked {
		st.State, st.Token, st.Inherited, st.Wanted = exchange.Waiting, 0, false, false
		st.Blocked, st.Due = !c.watch.sees(), blockedFor
	}
	return st
}

// blockedFor is after how long a waiter that another program keeps out looks again. It is told when
// that program ends, or closes the file, but not of an unlock alone.
const blockedFor = 500 * time.Millisecond

// lock locks the file for a ticket that is granted. The fixed time of a ticket begins then.
func (q *queue) lock(c *store, t *rows.Ticket) bool {
	locked, err := c.locks.take(q, t)
	if err != nil && c == q.s {
		q.unlockable = err
	}
	if locked && t.PID == 0 {
		t.PID, q.Changed = q.s.pid, true
		if t.HoldFor > 0 && !t.Fixed {
			t.Fix(t.HoldFor, q.now)
			q.durable = true
			c.locks.until(t.ID, q.now, t.End)
		}
	}
	return locked
}
