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
)

// queue is the row of a queue, with those of its tickets.
type queue struct {
	Name       string
	Kind       driver.Kind
	Capacity   int64
	Resized    bool      // the capacity is kept while there are no tickets
	Token      uint64    // the last
	Unclean    bool      // the last exclusive holder did not leave cleanly
	Tickets    []*ticket // in the order of Join
	Tombstones []tombstone
	Followers  []string // mailboxes
	Unlocking  moment   // until then, the client of a ticket that another one took out may have the file locked
	anew       bool     // if the row is damaged, it begins anew: for Raise

	Written moment    // when the row was written
	Wall    time.Time // the same by the wall clock
}

type tombstone struct {
	ID  string
	End moment
}

type ticket struct {
	ID      string
	Units   int64
	Session exchange.Session
	Request time.Duration // its Hold
	Note    []byte
	Since   time.Time

	Held      bool // the rule of the queue grants it
	Locked    bool // and its client has locked the file: see flocked
	Pid       int  // of that client
	Token     uint64
	Inherited bool
	Fixed     bool
	Hold      time.Duration // of a fixed ticket
	End       moment
	Revoked   bool
	Evicted   bool
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
	numberOf(c, &q.Unlocking)
	numberOf(c, &q.Written)
	timeOf(c, &q.Wall)
	listOf(c, &q.Followers, mailboxOf)
	listOf(c, &q.Tombstones, func(c *codec, b *tombstone) {
		textOf(c, &b.ID)
		numberOf(c, &b.End)
	})
	var made []ticket // so many again as were read
	listOf(c, &q.Tickets, func(c *codec, t **ticket) {
		if c.reads {
			if len(made) == 0 {
				made = make([]ticket, max(1, len(q.Tickets)))
			}
			*t, made = &made[0], made[1:]
		}
		(*t).fields(c)
	})
}

func (t *ticket) fields(c *codec) {
	textOf(c, &t.ID)
	numberOf(c, &t.Units)
	sessionOf(c, &t.Session.ID)
	numberOf(c, &t.Session.TTL)
	textOf(c, &t.Session.Owner)
	mailboxOf(c, &t.Session.Mailbox)
	numberOf(c, &t.Request)
	textOf(c, &t.Note)
	timeOf(c, &t.Since)
	flagOf(c, &t.Held)
	flagOf(c, &t.Locked)
	numberOf(c, &t.Pid)
	numberOf(c, &t.Token)
	flagOf(c, &t.Inherited)
	flagOf(c, &t.Fixed)
	numberOf(c, &t.Hold)
	numberOf(c, &t.End)
	flagOf(c, &t.Revoked)
	flagOf(c, &t.Evicted)
}

// queueTx is a transaction of a queue.
type queueTx struct {
	*tx
	*queue
	joins      *ticket // the one that a Join makes
	unlockable error   // why the file of the queue cannot be locked, but for another program
}

// change makes a transaction of a queue, which is settled before and afterwards.
func (s *store) change(ctx context.Context, name string, f func(x *queueTx) error) error {
	return s.changeRow(ctx, name, &queue{Name: name}, f)
}

func (s *store) changeRow(ctx context.Context, name string, q *queue, f func(x *queueTx) error) error {
	return s.transact(ctx, queues, escape(name), q, func(x *tx) error {
		if x.fresh {
			*q = queue{Name: name} // a part of a damaged row may have been read
		}
		if q.Name != name {
			return driver.Permanent(fmt.Errorf("the file system takes %q and %q for the same name", name, q.Name))
		}
		if x.fresh {
			floor, err := s.floor(ctx, 0)
			if err != nil && (!driver.IsPermanent(err) || errors.Is(err, errClosed)) {
				return err
			}
			q.Token = floor // if it is damaged, the clock's is enough
		}
		qx := &queueTx{tx: x, queue: q}
		if x.rebooted {
			qx.reboot()
		}
		qx.expire()
		qx.settle()
		err := f(qx)
		if x.changed {
			qx.settle()
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
			all.Token, x.changed = least, true
		}
		return nil
	})
	return all.Token, err
}

// reboot is called after a reboot: no session lives, and fixed ends go on by the wall clock.
func (x *queueTx) reboot() {
	off := x.now.sub(x.Written) - max(0, time.Since(x.Wall))
	for _, t := range x.Tickets {
		if t.Locked = false; !t.Fixed {
			t.End = 0
		} else {
			t.End = t.End.add(off)
		}
	}
	x.Tombstones = nil
}

// news is called for each change that followers see.
func (x *queueTx) news() {
	x.changed = true
	x.tell(&x.Followers, exchange.Event{Type: exchange.QueueChanged, Queue: x.Name})
}

// expire takes out tickets that have expired, and holders whose process is dead.
func (x *queueTx) expire() {
	for i := 0; i < len(x.Tickets); {
		t := x.Tickets[i]
		if t.End > x.now && (!t.Held || t.Fixed || !x.s.dead(t.Session)) {
			i++
			continue
		}
		x.bury(t.ID, t.Session.TTL)
		x.drop(t, t.Fixed && t.Request == 0)
	}
	x.Tombstones = slices.DeleteFunc(x.Tombstones, func(b tombstone) bool { return b.End <= x.now })
}

// settle grants the next waiters, unless their process is dead.
func (x *queueTx) settle() {
	for i, free := 0, x.Capacity; i < len(x.Tickets); {
		t := x.Tickets[i]
		switch {
		case t.Units > free:
			return
		case !t.Held && x.s.dead(t.Session):
			x.drop(t, true)
			continue
		case !t.Held:
			x.grant(t)
		}
		free -= t.Units
		i++
	}
}

// grant is called for a waiter that fits. If its client is another one, that locks the file when it
// is told.
func (x *queueTx) grant(t *ticket) {
	x.Token = max(x.Token+1, clockToken())
	x.durable = x.durable || x.Token > clockToken() // a power loss would take it back
	t.Held, t.Token, t.Inherited = true, x.Token, x.Unclean
	if !x.flocked() {
		x.fix(t)
	}
	if t == x.joins { // the status says so
	} else if !x.mine(t) {
		x.turn(t.Session.Mailbox)
	} else if st := x.status(t); st.State == exchange.Held {
		x.send(t.Session.Mailbox, exchange.Event{Type: exchange.Granted, ID: t.ID, Status: st})
	} else {
		x.send(t.Session.Mailbox, exchange.Event{Type: exchange.FirstWaiter, ID: t.ID, Status: st})
	}
	x.news()
}

// fix is called when the fixed time of a ticket begins, if it has one.
func (x *queueTx) fix(t *ticket) {
	if t.Request > 0 {
		t.Fixed, t.Hold, t.End = true, t.Request, x.now.add(t.Request)
		x.durable = true
	}
}

// exclusive: a ticket that is held, and no other beside it.
func (q *queue) exclusive(t *ticket) bool {
	beside := func(other *ticket) bool { return other.Held && other != t }
	return t.Held && t.Units >= q.Capacity && !slices.ContainsFunc(q.Tickets, beside)
}

// remove takes out a ticket. The caller has the queue settled.
func (x *queueTx) remove(t *ticket, clean bool) {
	if x.exclusive(t) {
		x.Unclean = !clean
	}
	x.Tickets = slices.DeleteFunc(x.Tickets, func(other *ticket) bool { return other == t })
	if x.mine(t) {
		x.s.locks.leave(t.ID, &x.file.idle)
	} else if x.over(t); t.Locked {
		x.Unlocking = x.now.add(unlocksWithin)
	}
	x.news()
}

// over has the client of a ticket unlock the file, and look.
func (x *queueTx) over(t *ticket) {
	if t.Session.Mailbox != "" {
		x.messages = append(x.messages, message{To: t.Session.Mailbox, Over: t.ID})
	}
}

// drop is remove for a ticket whose client does not ask for it.
func (x *queueTx) drop(t *ticket, clean bool) {
	if x.remove(t, clean); x.mine(t) {
		x.over(t)
	}
}

// evict is drop for somebody who asks for it.
func (x *queueTx) evict(t *ticket, clean bool) {
	x.remove(t, clean)
	x.send(t.Session.Mailbox, exchange.Event{Type: exchange.Removed, ID: t.ID})
}

// unlocksWithin is how long a Join waits for the client of a ticket that was taken out: it is told so,
// and unlocks the file. Until then the file seems to be locked by another program.
const unlocksWithin = 200 * time.Millisecond

// bury leaves a tombstone.
func (x *queueTx) bury(id string, d time.Duration) {
	x.Tombstones = append(x.Tombstones, tombstone{id, x.now.add(d)})
	x.changed = true
}

func (x *queueTx) buried(id string) bool {
	return slices.ContainsFunc(x.Tombstones, func(b tombstone) bool { return b.ID == id })
}

// extend moves the end of a ticket, unless it has one of its own.
func (x *queueTx) extend(t *ticket) {
	if !t.Fixed && !t.Evicted {
		t.End, x.changed = x.now.add(t.Session.TTL), true
		x.s.locks.until(t.ID, t.End)
	}
}

// ticket returns the ticket with an ID, or nil.
func (q *queue) ticket(id string) *ticket {
	if i := slices.IndexFunc(q.Tickets, func(t *ticket) bool { return t.ID == id }); i >= 0 {
		return q.Tickets[i]
	}
	return nil
}

// find returns a ticket that stands: of the session, or with a fixed end.
func (x *queueTx) find(s exchange.Session, id string) (*ticket, error) {
	t := x.ticket(id)
	if t == nil {
		x.s.locks.release(id)
	}
	if t == nil || t.Session.ID != s.ID && !t.Fixed {
		return nil, driver.ErrGone
	}
	return t, nil
}

// mine reports whether the client of a ticket is this one.
func (x *queueTx) mine(t *ticket) bool { return t.Session.Mailbox == x.s.mailbox }

// flocked reports whether a holder locks the file, too, which other programs may have locked:
// exclusively if it has the whole capacity, else shared. Semaphores and barriers do not.
func (x *queueTx) flocked() bool {
	return x.Kind == driver.Mutex || x.Kind == driver.Election || x.Kind == driver.RWMutex
}

// fits reports whether all tickets fit the capacity, and so many units more.
func (q *queue) fits(units int64) bool {
	for _, t := range q.Tickets {
		if units += t.Units; units > q.Capacity {
			return false
		}
	}
	return true
}

// status is what the client of a ticket is told. A ticket is held by it when the file is locked.
func (x *queueTx) status(t *ticket) exchange.Status {
	st := exchange.Status{Revoked: t.Revoked, Evicted: t.Evicted, State: exchange.Waiting, At: x.now.time()}
	blocked := t.Held && x.flocked() && x.mine(t) && !x.lock(t)
	st.Fixed, st.Hold, st.Left = t.Fixed, t.Hold, t.End.sub(x.now)
	switch {
	case blocked:
		st.Blocked, st.Due = !x.s.watch.sees(), blockedFor
	case t.Held:
		st.State, st.Token, st.Inherited, st.Wanted = exchange.Held, t.Token, t.Inherited, !x.Tickets[len(x.Tickets)-1].Held
	default:
		for _, front := range x.Tickets[:slices.Index(x.Tickets, t)] {
			if left := front.End.sub(x.now); st.Due == 0 || left < st.Due {
				st.Due = left
			}
			if !front.Held {
				st.Ahead++
			}
		}
	}
	return st
}

// blockedFor is after how long a waiter that another program keeps out looks again. It is told when
// that program ends, or closes the file, but not of an unlock alone.
const blockedFor = 500 * time.Millisecond

// lock locks the file for a ticket that is granted. The fixed time of a ticket begins then.
func (x *queueTx) lock(t *ticket) bool {
	locked, err := x.s.locks.take(x.Name, t.ID, t.Units == x.Capacity, t.End, &x.file.idle)
	if err != nil {
		x.unlockable = err
	}
	if locked && !t.Locked {
		t.Locked, t.Pid, x.changed = true, x.s.pid, true
		x.fix(t)
		x.s.locks.until(t.ID, t.End)
	}
	return locked
}

// clockToken is the smallest token of now.
func clockToken() uint64 { return uint64(time.Now().UnixMicro() / 10) }
