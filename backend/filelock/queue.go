//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/rows"
)

// queue is the row of a queue, and what the files of its holders add. Times of the rows are those of
// fileclock; only tokens, Since and Wall follow the wall clock.
type queue struct {
	rows.Queue
	pids      map[string]int           // by ID of the ticket: of the client that has locked the file for it
	holds     map[string]time.Duration // by ID of the ticket: for how long it is to be held from then on
	Unlocking time.Time                // until then, the client of a ticket that was taken out may have the file locked
	anew      bool                     // if the row is damaged, it begins anew: for Raise

	Written time.Time // when the row was written
	Wall    time.Time // the same by the wall clock
}

// resizedKind is the kind of a semaphore's row that keeps its capacity: programs of earlier releases
// take it for another kind.
const resizedKind driver.Kind = "semaphore, resized"

func (q *queue) fields(c *codec) {
	textOf(c, &q.Name)
	kind := q.Kind
	if q.Resized {
		kind = resizedKind
	}
	textOf(c, &kind)
	if q.Kind, q.Resized = kind, kind == resizedKind; q.Resized {
		q.Kind = driver.Semaphore
	}
	numberOf(c, &q.Capacity)
	numberOf(c, &q.Token)
	flagOf(c, &q.Unclean)
	timeOf(c, &q.Unlocking)
	timeOf(c, &q.Written)
	timeOf(c, &q.Wall)
	listOf(c, &q.Followers, mailboxOf)
	q.tombstones(c)
	var made []rows.Ticket // so many again as were read
	listOf(c, &q.Tickets, func(c *codec, t **rows.Ticket) {
		if c.reads {
			if len(made) == 0 {
				made = make([]rows.Ticket, max(1, len(q.Tickets)))
			}
			*t, made = &made[0], made[1:]
		}
		q.ticket(c, *t)
	})
}

// removedMark stands before the ID of a ticket that Ask has taken out: its holder may have missed the event, and is told
// by what it reads that it was evicted. Programs of earlier releases find no such ID.
const removedMark = "!"

func (q *queue) tombstones(c *codec) {
	var marked map[string]rows.Tombstone
	for id, b := range q.Tombstones {
		if b.Removed {
			id = removedMark + id
		}
		put(&marked, id, b)
	}
	mapOf(c, &marked, func(c *codec, b *rows.Tombstone) { timeOf(c, &b.End) })
	if !c.reads {
		return
	}
	for id, b := range marked {
		id, b.Removed = strings.CutPrefix(id, removedMark)
		put(&q.Tombstones, id, b)
	}
}

func (q *queue) ticket(c *codec, t *rows.Ticket) {
	textOf(c, &t.ID)
	numberOf(c, &t.Units)
	sessionOf(c, &t.Session.ID)
	numberOf(c, &t.Session.TTL)
	textOf(c, &t.Session.Owner)
	mailboxOf(c, &t.Session.Mailbox)
	hold, pid := t.HoldFor+q.holds[t.ID], q.pids[t.ID]
	locked := pid != 0
	numberOf(c, &hold)
	textOf(c, &t.Note)
	timeOf(c, &t.Since)
	flagOf(c, &t.Held)
	flagOf(c, &locked)
	numberOf(c, &pid)
	numberOf(c, &t.Token)
	flagOf(c, &t.Inherited)
	flagOf(c, &t.Fixed)
	numberOf(c, &t.Hold)
	timeOf(c, &t.End)
	flagOf(c, &t.Revoked)
	flagOf(c, &t.Evicted)
	if !c.reads {
		return
	}
	if locked {
		put(&q.pids, t.ID, pid)
	}
	if t.HoldFor = hold; hold > 0 && flocked(q.Kind) && !locked && !t.Fixed {
		q.holdFromLock(t)
	}
}

// holdFromLock has the fixed time of a ticket begin when the file is locked, and not with the grant.
func (q *queue) holdFromLock(t *rows.Ticket) {
	put(&q.holds, t.ID, t.HoldFor)
	t.HoldFor = 0
}

func put[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}

// flocked reports whether a holder locks the file, too, which other programs may have locked:
// exclusively if it has the whole capacity, else shared. Semaphores and barriers do not.
func flocked(kind driver.Kind) bool {
	return kind == driver.Mutex || kind == driver.Election || kind == driver.RWMutex
}

// queueTx is a transaction of a queue.
type queueTx struct {
	*tx
	*queue
	stood      []*rows.Ticket // when applied
	applied    int            // how many events
	joins      string         // the ID of the ticket that a Join makes
	unlockable error          // why the file of the queue cannot be locked, unless it is another program
}

// change makes a transaction of a queue, which is settled before and afterwards.
func (s *store) change(ctx context.Context, name string, f func(x *queueTx) error) error {
	return s.changeRow(ctx, name, &queue{}, f)
}

func (s *store) changeRow(ctx context.Context, name string, q *queue, f func(x *queueTx) error) error {
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
		if x.rebooted {
			q.reboot(x.Now)
		}
		qx := &queueTx{tx: x, queue: q, stood: slices.Clone(q.Tickets)}
		q.Token = max(q.Token, clockToken()-1)
		alive := "" // the last that was asked about: the row is settled twice
		q.Dead = func(of exchange.Session) (dead bool) {
			if dead = of.ID != alive && s.dead(of.ID); !dead {
				alive = of.ID
			}
			return dead
		}
		x.Exchange = rows.Begin(q, x.Now)
		qx.apply()
		err := f(qx)
		if qx.apply(); x.Changed {
			q.Written, q.Wall = x.Now, time.Now()
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
			all.Token, x.Changed = least, true
		}
		return nil
	})
	return all.Token, err
}

// reboot is called after a reboot: no session lives, and fixed ends go on by the wall clock.
func (q *queue) reboot(now time.Time) {
	off := now.Sub(q.Written) - max(0, time.Since(q.Wall))
	for _, t := range q.Tickets {
		if t.End = t.End.Add(off); !t.Fixed {
			t.End = now
		}
	}
	q.pids, q.Tombstones = nil, nil
}

// clockToken is the smallest token of now.
func clockToken() uint64 { return uint64(time.Now().UnixMicro() / 10) }

// apply follows the row: it unlocks the files of tickets that have left, and tells new holders. One of
// another client locks the file when it is told.
func (x *queueTx) apply() {
	i := 0
	for _, t := range x.stood {
		if i < len(x.Tickets) && x.Tickets[i] == t {
			i++
		} else {
			x.left(t)
		}
	}
	told := slices.Clone(x.Events[:x.applied])
	for i := x.applied; i < len(x.Events); i++ {
		ev := x.Events[i]
		if ev.Type == exchange.Granted {
			x.durable = x.durable || ev.Status.Fixed || ev.Status.Token > clockToken() // a power loss would take it back
			t := x.Ticket(ev.ID)
			switch {
			case ev.ID == x.joins || t == nil: // the status says so
				continue
			case x.mine(t):
				ev.Event = x.granted(t)
			default: // once, however many they are: a mailbox has room for a few messages only
				ev.Event = exchange.Event{Type: exchange.Granted, Queue: x.Name}
				same := func(other rows.Event) bool { return other.Mailbox == ev.Mailbox && other.Type == exchange.Granted }
				if slices.ContainsFunc(told, same) {
					continue
				}
			}
		}
		told = append(told, ev)
	}
	x.Events, x.applied = told, len(told)
	x.stood = slices.Clone(x.Tickets)
}

// left is called for a ticket that was taken out. If its client has not asked for that, it is told to unlock
// the file, and to look.
func (x *queueTx) left(t *rows.Ticket) {
	switch {
	case x.mine(t):
		x.s.locks.leave(t.ID, &x.file.idle)
		if t.End.After(x.Now) {
			return
		}
	case x.pids[t.ID] != 0:
		x.Unlocking = x.Now.Add(unlocksWithin)
	}
	x.Events = append(x.Events, rows.Event{Mailbox: t.Session.Mailbox, Event: exchange.Event{Type: over, ID: t.ID}})
}

// unlocksWithin is how long a Join waits for the client of a ticket that was taken out: it is told so,
// and unlocks the file. Until then the file seems to be locked by another program.
const unlocksWithin = time.Second

// drop takes out a ticket of this client, which does not ask for it.
func (x *queueTx) drop(t *rows.Ticket, clean bool) {
	t.End = x.Now
	x.Withdraw(t.Session, []string{t.ID}, clean)
}

// find is Ticket for a call of this client. The file of a ticket that does not stand is unlocked.
func (x *queueTx) find(id string) *rows.Ticket {
	t := x.Ticket(id)
	if t == nil {
		x.s.locks.release(id)
	}
	return t
}

// mine reports whether the client of a ticket is this one.
func (x *queueTx) mine(t *rows.Ticket) bool { return t.Session.Mailbox == x.s.mailbox }

// granted is what a client is told of its ticket when the row grants it.
func (x *queueTx) granted(t *rows.Ticket) exchange.Event {
	ev := exchange.Event{Type: exchange.Granted, ID: t.ID, Status: x.status(t)}
	if ev.Status.State != exchange.Held {
		ev.Type = exchange.FirstWaiter // Await looks
	}
	return ev
}

// status is what the client of a ticket is told. A ticket is held by it when the file is locked.
func (x *queueTx) status(t *rows.Ticket) exchange.Status {
	blocked := t.Held && flocked(x.Kind) && x.mine(t) && !x.lock(t)
	st := x.Look(t.Session, t.ID, false)
	if st.Sent = x.sent; blocked {
		st.State, st.Token, st.Inherited, st.Wanted = exchange.Waiting, 0, false, false
		st.Blocked, st.Due = !x.s.watch.sees(), blockedFor
	}
	return st
}

// blockedFor is after how long a waiter that another program keeps out looks again. It is told when
// that program ends, or closes the file, but not of an unlock alone.
const blockedFor = 500 * time.Millisecond

// lock locks the file for a ticket that is granted. The fixed time of a ticket begins then.
func (x *queueTx) lock(t *rows.Ticket) bool {
	locked, err := x.s.locks.take(x.Name, t.ID, t.Units == x.Capacity, x.Now, t.End, &x.file.idle)
	if err != nil {
		x.unlockable = err
	}
	if !locked || x.pids[t.ID] != 0 {
		return locked
	}
	put(&x.pids, t.ID, x.s.pid)
	x.Changed = true
	if hold := x.holds[t.ID]; hold > 0 {
		delete(x.holds, t.ID)
		t.Fixed, t.HoldFor, t.Hold, x.durable = true, hold, hold, true
		if end := x.Now.Add(hold); !t.Evicted || end.Before(t.End) {
			t.End = end
		}
		x.s.locks.until(t.ID, x.Now, t.End)
	}
	return true
}
