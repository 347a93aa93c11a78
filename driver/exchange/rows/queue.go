package rows

import (
	"math"
	"slices"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/follow"
)

// Queue is the row of a queue, with those of its tickets.
type Queue struct {
	Name       string
	Kind       driver.Kind
	Capacity   int64
	Resized    bool                 // the capacity is kept while there are no tickets
	Token      uint64               // the last
	Unclean    bool                 // the last exclusive holder did not leave cleanly
	Tickets    []*Ticket            // in the order of Join
	Tombstones map[string]Tombstone // by ID of the ticket
	Followers  []string             // mailboxes

	// When the row was written, by the backend's clock and by the wall clock, if the first begins anew with the
	// machine. See Reboot.
	Written, Wall time.Time `json:",omitzero"`

	// Tail, if it is not nil, has the rows of the last tickets of a long queue, which are Behind so many others: see
	// Tail.
	Tail   Tail `json:"-"`
	Behind int  `json:",omitzero"`

	// Dead, if it is not nil, reports that the process of a session has certainly ended. Then its tickets that are
	// held, or would be granted, are taken out, unless they have a fixed end.
	Dead func(exchange.Session) bool `json:"-"`

	// Left, if it is not nil, is called for each ticket that has been taken out.
	Left func(*Ticket) `json:"-"`

	// Memory, if it is not nil, has the rows of the tickets: see Memory.
	Memory Memory `json:"-"`

	// Late: the grant does not begin a fixed time. The Store does, by [Ticket.Fix], when the holder has what else it
	// needs.
	Late bool `json:"-"`

	*Exchange `json:"-"`
	own       Exchange

	// What follows from the tickets.
	held int       // how many are held, the first ones
	used int64     // units of these
	next time.Time // none of them, and no tombstone, ends before
}

// Tail is for a Store that keeps the last tickets of a long queue in rows of their own, so that an exchange does not
// take longer the more wait. They wait, behind a waiter of Tickets. What it changes is written with the row of the
// queue.
type Tail interface {
	First() []*Ticket       // takes out some, the first ones
	Add(t *Ticket)          // at the end
	Find(id string) *Ticket // nil: there is none
	Save(t *Ticket)         // one that Find has returned
	Remove(t *Ticket)       // the same, or one of All
	All() []*Ticket
}

// waitersInFront is how many waiters the row of a queue has that has a Tail.
const waitersInFront = 4

// Memory is for a Store that keeps rows in memory, and changes them by the methods of this package only. An exchange
// then allocates nothing, and looks at a few tickets, however many there are.
type Memory interface {
	New() *Ticket                  // makes the row of a ticket, to be filled in
	Find(queue, id string) *Ticket // nil: there is none
	Left(t *Ticket)                // is called for one that has been taken out: its memory may be used again
	Last() *uint64                 // the last token of all queues: tokens follow it instead of the clock

	// Told is called at once, instead of an event for the session of a ticket.
	Told(t *Ticket, what exchange.EventType, demand driver.Demand)
}

// Tombstone is what is left of a ticket.
type Tombstone struct {
	End     time.Time
	Removed bool // by Ask
}

// Ticket is the row of a ticket.
type Ticket struct {
	ID      string
	Units   int64
	HoldFor time.Duration // for how long it is held; 0: as long as it is extended
	Note    []byte
	Session exchange.Session
	Since   time.Time // of the Join

	End       time.Time
	Held      bool
	Token     uint64        // of a holder
	Inherited bool          // of a holder
	Fixed     bool          // its end is
	Hold      time.Duration // how long the fixed time is that ends then
	Revoked   bool
	Evicted   bool
	PID       int `json:",omitzero"` // for a Store whose holders lock a file, too: the process that has locked it

	Own    any  `json:"-"` // of a Memory: what it keeps beside it
	behind bool // it is in the Tail
}

func (q *Queue) begin(now time.Time) *Exchange {
	q.own = Exchange{Now: now}
	q.Exchange = &q.own
	if q.Memory == nil || !q.next.After(now) {
		q.look(true)
	}
	return q.Exchange
}

// Reboot is called, before [Begin], for a row that was written before the machine was booted: no session lives any
// more, and fixed ends go on by the wall clock.
func (q *Queue) Reboot(now time.Time) {
	off := now.Sub(q.Written) - max(0, time.Since(q.Wall))
	for _, t := range q.Tickets {
		if t.PID, t.End = 0, t.End.Add(off); !t.Fixed {
			t.End = now
		}
	}
	q.Tombstones = nil
}

// settle is called for a queue that has changed: GrantInTheSameExchange.
func (q *Queue) settle() { q.look(q.Memory == nil) }

// look takes out tickets that have expired or are dead, and grants the next waiters: Prefix. In memory it looks at all
// only if one can have expired, at others only to grant them.
func (q *Queue) look(all bool) {
	waits, at := false, q.held
	if all {
		at = 0
		q.count()
	}
	for at < len(q.Tickets) || q.more() {
		t := q.Tickets[at]
		fits := !t.Held && !waits && t.Units <= q.Capacity-q.used
		dead := (t.Held || fits) && !t.Fixed && q.Dead != nil && q.Dead(t.Session)
		switch {
		case dead || !t.End.After(q.Now):
			if !dead {
				q.bury(t.ID, t.Session.TTL, false) // a late copy of its Join is refused
			}
			q.remove(t, t.Fixed && t.HoldFor == 0)
			continue
		case fits:
			q.grant(t)
		case !t.Held && !all:
			return
		case !t.Held:
			waits = true
		}
		q.endsBy(t.End)
		at++
	}
}

// count prepares a look at all tickets.
func (q *Queue) count() {
	q.held, q.used, q.next = 0, 0, q.Now.Add(math.MaxInt64)
	for _, t := range q.Tickets {
		if t.Held {
			q.held++
			q.used += t.Units
		}
	}
	for id, t := range q.Tombstones {
		if q.endsBy(t.End); !t.End.After(q.Now) {
			delete(q.Tombstones, id)
			q.Changed = true
		}
	}
}

// endsBy takes note of an end.
func (q *Queue) endsBy(at time.Time) {
	if at.Before(q.next) {
		q.next = at
	}
}

// more takes tickets out of the tail, if no waiter is in front of it.
func (q *Queue) more() bool {
	if q.Behind == 0 || len(q.Tickets) > 0 && !q.Tickets[len(q.Tickets)-1].Held {
		return false
	}
	first := q.Tail.First()
	if q.Behind -= len(first); len(first) == 0 {
		q.Behind = 0
	}
	for _, t := range first {
		t.behind = false
		q.endsBy(t.End)
	}
	q.Tickets, q.Changed = append(q.Tickets, first...), true
	return len(first) > 0
}

// Reap settles the queue with Dead, for a Store that sets it only when a ticket could be in the way.
func (q *Queue) Reap(dead func(exchange.Session) bool) (changed bool) {
	before := q.Changed
	q.Dead, q.Changed = dead, false
	q.settle()
	changed = q.Changed
	q.Changed = changed || before
	return changed
}

func (q *Queue) grant(t *Ticket) {
	next := q.clock()
	if q.Token = max(q.Token+1, next); q.Memory != nil && q.Token == next {
		*q.Memory.Last() = next
	}
	t.Held, t.Token, t.Inherited = true, q.Token, q.Unclean
	q.held++
	q.used += t.Units
	if t.HoldFor > 0 && !q.Late {
		t.Fix(t.HoldFor, q.Now)
	}
	q.changed()
	q.tell(t, exchange.Granted, 0)
}

// tell sends an event to the session of a ticket.
func (q *Queue) tell(t *Ticket, what exchange.EventType, demand driver.Demand) {
	if q.Memory != nil {
		q.Memory.Told(t, what, demand)
		return
	}
	ev := exchange.Event{Type: what, ID: t.ID, Demand: demand}
	if what == exchange.Granted || what == exchange.FirstWaiter {
		ev.Status = q.Status(t)
	}
	q.send(t.Session.Mailbox, ev)
}

// Fix begins a fixed time. It does not put off the end of a ticket that is evicted.
func (t *Ticket) Fix(d time.Duration, now time.Time) {
	t.Fixed, t.Hold = true, d
	if end := now.Add(d); !t.Evicted || end.Before(t.End) {
		t.End = end
	}
}

// exclusive: a ticket that is held, and no other beside it.
func (q *Queue) exclusive(t *Ticket) bool {
	return t.Held && t.Units >= q.Capacity && q.held == 1
}

// remove takes a ticket out. The caller has the queue settled.
func (q *Queue) remove(t *Ticket, clean bool) {
	if q.exclusive(t) {
		q.Unclean = !clean
	}
	if t.behind {
		q.Tail.Remove(t)
		q.Behind--
	} else if at := slices.Index(q.Tickets, t); at > 0 || len(q.Tickets) < 100 {
		q.Tickets = slices.Delete(q.Tickets, at, at+1)
	} else { // so many are not moved
		q.Tickets[0], q.Tickets = nil, q.Tickets[1:]
	}
	if t.Held {
		q.held--
		q.used -= t.Units
	}
	q.changed()
	switch {
	case q.Memory != nil:
		q.Memory.Left(t)
	case q.Left != nil:
		q.Left(t)
	}
}

// bury leaves a tombstone.
func (q *Queue) bury(id string, d time.Duration, removed bool) {
	if q.Tombstones == nil {
		q.Tombstones = map[string]Tombstone{}
	}
	end := q.Now.Add(d)
	q.Tombstones[id], q.Changed = Tombstone{end, removed}, true
	q.endsBy(end)
}

// Extend moves the end of a ticket, unless it has one of its own.
func (q *Queue) Extend(t *Ticket) {
	if !t.Fixed && !t.Evicted {
		t.End = q.Now.Add(t.Session.TTL)
		q.save(t)
	}
}

// save has the row written that has a ticket.
func (q *Queue) save(t *Ticket) {
	if t.behind {
		q.Tail.Save(t)
	} else {
		q.Changed = true
	}
}

func (q *Queue) changed() {
	if q.Changed = true; len(q.Followers) > 0 {
		q.change(&q.Followers, exchange.Event{Type: exchange.QueueChanged, Queue: q.Name})
	}
}

// clock is the smallest token of now.
func (q *Queue) clock() uint64 {
	if q.Memory != nil {
		return *q.Memory.Last() + 1
	}
	return uint64(q.Now.UnixMicro() / 10)
}

// hasTokens reports whether there are tokens above a floor for all tickets and one more.
func (q *Queue) hasTokens(floor uint64) bool {
	return max(q.Token, q.clock(), floor)+uint64(len(q.Tickets)+q.Behind)+1 < driver.MaxToken
}

// Ticket returns the ticket with an ID, or nil.
func (q *Queue) Ticket(id string) *Ticket {
	if q.Memory != nil {
		return q.Memory.Find(q.Name, id)
	}
	for _, t := range q.Tickets {
		if t.ID == id {
			return t
		}
	}
	if q.Behind == 0 {
		return nil
	}
	t := q.Tail.Find(id)
	if t != nil {
		if t.behind = true; !t.End.After(q.Now) {
			q.bury(t.ID, t.Session.TTL, false)
			q.remove(t, true)
			return nil
		}
	}
	return t
}

// find returns a ticket of a session, or with a fixed end.
func (q *Queue) find(s exchange.Session, id string) (*Ticket, error) {
	if t := q.Ticket(id); t != nil && (t.Session.ID == s.ID || t.Fixed) {
		return t, nil
	}
	return nil, driver.ErrGone
}

// fits reports whether all tickets fit the capacity, and so many units more.
func (q *Queue) fits(units int64) bool { return !q.Waits() && units <= q.Capacity-q.used }

// Waits reports whether a ticket waits.
func (q *Queue) Waits() bool {
	return q.Behind > 0 || len(q.Tickets) > 0 && !q.Tickets[len(q.Tickets)-1].Held
}

// Status is what an exchange says of a ticket of the queue.
func (q *Queue) Status(t *Ticket) exchange.Status {
	st := exchange.Status{State: exchange.Waiting, Revoked: t.Revoked, Evicted: t.Evicted, Fixed: t.Fixed, Hold: t.Hold, Left: t.End.Sub(q.Now), At: q.Now}
	if t.Held {
		st.State, st.Token, st.Inherited, st.Wanted = exchange.Held, t.Token, t.Inherited, q.Waits()
		return st
	}
	st.Due = st.Left // it may expire itself, and Await is to say so
	ahead := q.Tickets
	if t.behind {
		st.Ahead = q.Behind - 1 // at most
	} else {
		ahead = ahead[:slices.Index(ahead, t)]
	}
	for _, front := range ahead {
		st.Due = min(st.Due, front.End.Sub(q.Now))
		if !front.Held {
			st.Ahead++
		}
	}
	return st
}

// Join is [exchange.Changer.Join]. ErrBusy leaves no ticket.
func (q *Queue) Join(j exchange.Join) (st exchange.Status, err error) {
	t := q.Ticket(j.ID)
	found := t != nil // OneTicket
	switch {
	case !found:
		t, err = q.Place(&j)
	case t.Session.ID != j.Session.ID:
		err = driver.ErrGone
	default:
		q.Extend(t)
	}
	if err == nil {
		st = q.Status(t)
		st.Found = found
	}
	return st, err
}

// Place is Join with an ID that has no ticket, and returns the row of the new one.
func (q *Queue) Place(j *exchange.Join) (*Ticket, error) {
	switch empty := len(q.Tickets) == 0; {
	case q.Tombstones[j.ID].End.After(q.Now):
		return nil, driver.ErrGone
	case (!empty || q.Resized) && (q.Kind != j.Kind || q.Capacity != j.Capacity):
		return nil, driver.ErrMismatch
	case !empty && j.NoWait && !q.fits(j.Units):
		return nil, driver.ErrBusy
	case !q.hasTokens(0):
		return nil, exchange.ErrTokens
	}
	q.Kind, q.Capacity = j.Kind, j.Capacity
	t := q.newTicket()
	*t = Ticket{Own: t.Own, ID: j.ID, Units: j.Units, HoldFor: j.Hold, Note: j.Note, Session: j.Session, Since: q.Now, End: q.Now.Add(j.Session.TTL)}
	q.changed()
	if q.long() {
		t.behind = true
		q.Tail.Add(t)
		q.Behind++
		return t, nil
	}
	q.Tickets = append(q.Tickets, t)
	q.endsBy(t.End)
	q.settle()
	if front := q.Tickets[:len(q.Tickets)-1]; q.held == len(front) && !t.Held {
		for _, holder := range front { // which now have a waiter behind them
			q.tell(holder, exchange.Demanded, driver.Wanted)
		}
	}
	return t, nil
}

func (q *Queue) newTicket() *Ticket {
	if q.Memory != nil {
		return q.Memory.New()
	}
	return &Ticket{}
}

// long reports whether the next ticket is one of the tail.
func (q *Queue) long() bool {
	return q.Behind > 0 || q.Tail != nil && len(q.Tickets)-q.held >= waitersInFront
}

// Leave is [exchange.Changer.Leave].
func (q *Queue) Leave(l exchange.Leave) error {
	if l.Tombstone > 0 {
		q.bury(l.ID, l.Tombstone, q.Tombstones[l.ID].Removed)
	}
	t, err := q.find(l.Session, l.ID)
	if err == nil && !(l.Unfixed && t.Fixed) {
		q.remove(t, l.Clean)
		q.settle()
	}
	return err
}

// Withdraw is [exchange.Withdrawer.Withdraw].
func (q *Queue) Withdraw(s exchange.Session, ids []string, clean bool) (gone []bool) {
	gone = make([]bool, len(ids))
	for i, id := range ids {
		if t, err := q.find(s, id); err == nil && t.Session.ID == s.ID {
			q.remove(t, clean)
		} else {
			gone[i] = true
		}
	}
	q.settle()
	return gone
}

// Shrink is [exchange.Changer.Shrink].
func (q *Queue) Shrink(s exchange.Session, id string, units int64) error {
	t, err := q.find(s, id)
	switch {
	case err != nil || t.Session.ID != s.ID:
		return driver.ErrGone
	case units >= t.Units:
		return nil
	case q.exclusive(t):
		q.Unclean = false // the exclusive hold has ended well
	}
	if t.Held {
		q.used -= t.Units - units
	}
	t.Units = units
	q.save(t)
	q.changed()
	q.settle()
	return nil
}

// Keep is [exchange.Changer.Keep].
func (q *Queue) Keep(s exchange.Session, id string, d time.Duration) error {
	t, err := q.find(s, id)
	switch {
	case err != nil:
		return err
	case !t.Held:
		return exchange.ErrNotHeld
	case t.Evicted && q.Now.Add(d).After(t.End):
		return driver.ErrGone
	}
	t.Fix(d, q.Now)
	q.ends(t)
	return nil
}

// ends is called when the end of a ticket is another one: the first waiter may have to look sooner.
func (q *Queue) ends(t *Ticket) {
	q.endsBy(t.End)
	q.changed()
	if q.held < len(q.Tickets) {
		q.tell(q.Tickets[q.held], exchange.FirstWaiter, 0)
	}
}

// Look is [exchange.Store.Look] for one ticket, and [exchange.Store.Renew], which extends what its caller
// has named.
func (q *Queue) Look(s exchange.Session, id string, extend bool) (st exchange.Status) {
	t, err := q.find(s, id)
	if err != nil {
		return exchange.Status{Evicted: q.Tombstones[id].Removed}
	}
	if extend && t.Session.ID == s.ID {
		q.Extend(t)
	}
	return q.Status(t)
}

// Ask is [exchange.Store.Ask].
func (q *Queue) Ask(id string, demand driver.Demand) error {
	t := q.Ticket(id)
	switch {
	case t == nil:
		return driver.ErrGone
	case demand == driver.Force || demand == driver.Evict && !t.Held:
		q.tell(t, exchange.Removed, 0)
		q.bury(id, t.Session.TTL, true) // its holder may have missed the event
		q.remove(t, false)
		q.settle()
		return nil
	case demand == driver.Evict:
		if t.Evicted = true; t.HoldFor == 0 && t.End.After(q.Now.Add(t.Session.TTL)) {
			t.End = q.Now.Add(t.Session.TTL)
		}
		q.ends(t)
	default:
		t.Revoked = true
		q.save(t)
	}
	q.tell(t, exchange.Demanded, demand)
	return nil
}

// Resize is [exchange.Resizer.Resize].
func (q *Queue) Resize(capacity int64) error {
	if len(q.Tickets) > 0 && q.Kind != driver.Semaphore {
		return driver.ErrMismatch
	}
	q.Resized = capacity > 0
	if q.Resized {
		q.Kind, q.Capacity = driver.Semaphore, capacity
	}
	for _, t := range q.all() {
		if !t.Held && t.Units > q.Capacity {
			q.tell(t, exchange.Removed, 0)
			q.bury(t.ID, t.Session.TTL, true)
			q.remove(t, true)
		}
	}
	q.changed()
	q.settle()
	return nil
}

// Raise is [exchange.Store.Raise].
func (q *Queue) Raise(floor uint64) error {
	if floor > q.Token && !q.hasTokens(floor) {
		return exchange.ErrTokens
	}
	q.Token, q.Changed = max(q.Token, floor), true
	return nil
}

// all are all tickets that have not expired.
func (q *Queue) all() []*Ticket {
	all := slices.Clone(q.Tickets)
	if q.Behind > 0 {
		for _, t := range q.Tail.All() {
			if t.behind = true; t.End.After(q.Now) {
				all = append(all, t)
			}
		}
	}
	return all
}

// Read is [exchange.Store.Read].
func (q *Queue) Read(f exchange.Follower) exchange.Snapshot {
	q.follow(&q.Followers, f)
	s := exchange.Snapshot{Queue: driver.Queue{Name: q.Name, Kind: q.Kind, Capacity: q.Capacity, Resized: q.Resized}, At: q.Now}
	all := q.all()
	if len(all) == 0 && !q.Resized { // what it was used as last
		s.Kind, s.Capacity = "", 0
	}
	for _, t := range all {
		s.Members = append(s.Members, driver.Member{ID: t.ID, Owner: t.Session.Owner, Note: t.Note, Units: t.Units,
			Held: t.Held, Token: t.Token, Since: t.Since, Left: t.End.Sub(q.Now), Fixed: t.Fixed})
	}
	// Now and what is left may not add up to the end, whose clock shows another time by then if it was set.
	s.Version = follow.Version(s.Queue, func(i int) time.Time { return all[i].End })
	return s
}

// Empty reports whether a missing row would say the same: [exchange.Tidier] removes such rows. It is
// called after [Begin].
func (q *Queue) Empty() bool { return !q.Says() && q.Token < q.clock() }

// Says reports whether the row says more than a missing one, apart from its last token.
func (q *Queue) Says() bool {
	return len(q.Tickets)+len(q.Tombstones)+len(q.Followers) > 0 || q.Unclean || q.Resized
}
