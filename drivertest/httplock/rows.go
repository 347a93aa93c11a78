package httplock

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// rows are the rows, and have the exchanges: the methods of Store, which the server calls with its
// mutex locked. There are no rows of sessions. Each exchange settles the queues that it looks at,
// so that none is unsettled afterwards.
type rows struct {
	now        time.Time // of the exchange
	queues     map[string]*queue
	tickets    map[string]*ticket   // by ID
	tombstones map[string]time.Time // until when, by ID
	cells      map[string]driver.Cell
	swaps      map[string]swapped
	followers  map[topic][]string             // mailboxes
	mailboxes  map[string]chan exchange.Event // of the clients that listen
}

type topic struct {
	changed exchange.EventType // QueueChanged or CellChanged
	name    string
}

type queue struct {
	driver.Queue
	tickets []*ticket // in the order of Join
	token   uint64    // the last
	unclean bool      // the last exclusive holder did not leave cleanly
}

type ticket struct {
	exchange.Status // but what status adds
	driver.Request
	session    exchange.Session
	queue      *queue
	since, end time.Time
}

type swapped struct {
	cell driver.Cell
	err  error
	end  time.Time
}

// queue returns a queue, settled.
func (r *rows) queue(name string) *queue {
	if r.queues[name] == nil {
		r.queues[name] = &queue{Queue: driver.Queue{Name: name}}
	}
	r.settle(r.queues[name])
	return r.queues[name]
}

// settle takes out what has expired, and grants the next waiters: Prefix. It is called again for a
// queue that was changed.
func (r *rows) settle(q *queue) {
	for _, t := range slices.Clone(q.tickets) {
		if !t.end.After(r.now) {
			r.tombstones[t.ID] = r.now.Add(t.session.TTL)
			r.remove(t, t.Fixed && t.Request.Hold == 0)
		}
	}
	free := q.Capacity
	for _, t := range q.tickets {
		if free -= t.Units; free < 0 {
			break
		}
		if t.State == exchange.Waiting {
			r.grant(t)
		}
	}
}

func (r *rows) grant(t *ticket) {
	t.queue.token = max(t.queue.token+1, r.clock())
	t.State, t.Token, t.Inherited = exchange.Held, t.queue.token, t.queue.unclean
	if t.Request.Hold > 0 {
		t.Fixed, t.Status.Hold, t.end = true, t.Request.Hold, r.now.Add(t.Request.Hold)
	}
	r.send(t, exchange.Event{Type: exchange.Granted, Status: r.status(t)})
	r.changed(t.queue)
}

// remove takes a ticket out of its queue, which the caller settles.
func (r *rows) remove(t *ticket, clean bool) {
	delete(r.tickets, t.ID)
	t.queue.tickets = slices.DeleteFunc(t.queue.tickets, func(other *ticket) bool { return other == t })
	if t.State == exchange.Held && t.Units == t.queue.Capacity {
		t.queue.unclean = !clean
	}
	r.changed(t.queue)
}

// extend moves the end of a ticket, unless it has one of its own.
func (r *rows) extend(t *ticket) {
	if !t.Fixed && !t.Evicted {
		t.end = r.now.Add(t.session.TTL)
	}
}

// find returns a ticket that stands: of the session, or with a fixed end.
func (r *rows) find(s exchange.Session, ref exchange.Ref) (*ticket, error) {
	q := r.queue(ref.Queue)
	t := r.tickets[ref.ID]
	if t == nil || t.queue != q || t.session.ID != s.ID && !t.Fixed {
		return nil, driver.ErrGone
	}
	return t, nil
}

// status is called for a ticket that stands.
func (r *rows) status(t *ticket) exchange.Status {
	s := t.Status
	s.Left, s.Wanted = t.end.Sub(r.now), t.State == exchange.Held && !t.queue.fits(0)
	for _, front := range t.queue.tickets[:slices.Index(t.queue.tickets, t)] {
		if left := front.end.Sub(r.now); s.Due == 0 || left < s.Due {
			s.Due = left
		}
		if front.State == exchange.Waiting {
			s.Ahead++
		}
	}
	return s
}

// fits reports whether all tickets fit the capacity, and so many units more.
func (q *queue) fits(units int64) bool {
	for _, t := range q.tickets {
		if units += t.Units; units > q.Capacity {
			return false
		}
	}
	return true
}

// clock is the smallest token of now.
func (r *rows) clock() uint64 { return uint64(r.now.UnixMicro() / 10) }

// send sends an event of a ticket to its client. It is lost if nobody listens, or too slowly.
func (r *rows) send(t *ticket, ev exchange.Event) {
	ev.ID = t.ID
	r.post(t.session.Mailbox, ev)
}

func (r *rows) post(mailbox string, ev exchange.Event) {
	select {
	case r.mailboxes[mailbox] <- ev:
	default:
	}
}

// follow has the next change sent to a mailbox.
func (r *rows) follow(f exchange.Follower, to topic) {
	if f.Mailbox != "" && !slices.Contains(r.followers[to], f.Mailbox) {
		r.followers[to] = append(r.followers[to], f.Mailbox)
	}
}

func (r *rows) changed(q *queue) { r.tell(topic{exchange.QueueChanged, q.Name}) }

// tell sends a change to those that follow, once.
func (r *rows) tell(of topic) {
	for _, mailbox := range r.followers[of] {
		r.post(mailbox, exchange.Event{Type: of.changed, Queue: of.name, Cell: of.name})
	}
	delete(r.followers, of)
}

func (r *rows) Join(j exchange.Join) (s exchange.Status, err error) {
	q := r.queue(j.Queue)
	t := r.tickets[j.ID]
	if len(q.tickets) == 0 {
		q.Kind, q.Capacity = j.Kind, j.Capacity
	}
	switch {
	case t != nil && t.session.ID != j.Session.ID || t == nil && r.tombstones[j.ID].After(r.now):
		return s, driver.ErrGone
	case t != nil && t.queue == q: // OneTicket
		r.extend(t)
		return r.status(t), nil
	case t != nil || q.Kind != j.Kind || q.Capacity != j.Capacity:
		return s, driver.ErrMismatch
	case max(q.token, r.clock())+uint64(len(q.tickets))+1 >= driver.MaxToken:
		return s, exchange.ErrTokens
	case j.NoWait && !q.fits(j.Units):
		return s, driver.ErrBusy
	}
	t = &ticket{exchange.Status{State: exchange.Waiting}, j.Request, j.Session, q, r.now, r.now.Add(j.Session.TTL)}
	r.tickets[j.ID], q.tickets = t, append(q.tickets, t)
	r.changed(q)
	r.settle(q)
	if st := r.status(t); st.State == exchange.Held || st.Ahead > 0 {
		return st, nil
	}
	for _, holder := range q.tickets[:len(q.tickets)-1] { // which now have a waiter behind them
		r.send(holder, exchange.Event{Type: exchange.Demanded, Demand: driver.Wanted})
	}
	return r.status(t), nil
}

func (r *rows) Leave(l exchange.Leave) error {
	if l.Tombstone > 0 {
		r.tombstones[l.ID] = r.now.Add(l.Tombstone)
	}
	t, err := r.find(l.Session, l.Ref)
	if err == nil && !(l.Unfixed && t.Fixed) {
		r.remove(t, l.Clean)
		r.settle(t.queue) // GrantInTheSameExchange
	}
	return err
}

func (r *rows) End(tickets []exchange.Leave) error {
	for _, l := range tickets {
		_ = r.Leave(l) // or it does not stand
	}
	return nil
}

func (r *rows) Shrink(s exchange.Session, ref exchange.Ref, units int64) error {
	t, err := r.find(s, ref)
	if err == nil && t.session.ID != s.ID {
		err = driver.ErrGone
	}
	if err == nil && units < t.Units {
		if t.State == exchange.Held && t.Units == t.queue.Capacity {
			t.queue.unclean = false // the exclusive hold has ended well
		}
		t.Units = units
		r.changed(t.queue)
		r.settle(t.queue)
	}
	return err
}

func (r *rows) Keep(s exchange.Session, ref exchange.Ref, d time.Duration) error {
	t, err := r.find(s, ref)
	switch end := r.now.Add(d); {
	case err != nil:
		return err
	case t.State != exchange.Held:
		return exchange.ErrNotHeld
	case t.Evicted && end.After(t.end):
		return driver.ErrGone
	default:
		t.Fixed, t.Status.Hold, t.end = true, d, end
		r.changed(t.queue)
		r.settle(t.queue)
		return nil
	}
}

func (r *rows) Renew(s exchange.Session, refs []exchange.Ref, extend int) (exchange.Renewal, error) {
	for _, ref := range refs[:extend] {
		if t, err := r.find(s, ref); err == nil {
			r.extend(t)
		}
	}
	all, err := r.Look(s, refs)
	for i := extend; i < len(all); i++ {
		all[i].Stray = !all[i].Fixed
	}
	return exchange.Renewal{Tickets: all}, err
}

func (r *rows) Look(s exchange.Session, refs []exchange.Ref) ([]exchange.Status, error) {
	all := make([]exchange.Status, len(refs)) // each is gone
	for i, ref := range refs {
		if t, err := r.find(s, ref); err == nil {
			all[i] = r.status(t)
		}
	}
	return all, nil
}

func (r *rows) Settle(queue string) error {
	r.queue(queue)
	return nil
}

func (r *rows) Ask(queue, id string, demand driver.Demand) error {
	q := r.queue(queue)
	t := r.tickets[id]
	switch {
	case t == nil || t.queue != q:
		return driver.ErrGone
	case demand == driver.Force || demand == driver.Evict && t.State == exchange.Waiting:
		r.send(t, exchange.Event{Type: exchange.Removed})
		r.remove(t, false)
	default:
		t.Revoked, t.Evicted = t.Revoked || demand == driver.Revoke, t.Evicted || demand == driver.Evict
		if end := r.now.Add(t.session.TTL); t.Evicted && end.Before(t.end) {
			t.end = end
		}
		r.send(t, exchange.Event{Type: exchange.Demanded, Demand: demand})
	}
	r.settle(q)
	return nil
}

func (r *rows) Raise(queue string, floor uint64) error {
	q := r.queue(queue)
	q.token = max(q.token, floor)
	return nil
}

func (r *rows) Clock() (int64, error) { return r.now.UnixMicro(), nil }

func (r *rows) Read(name string, f exchange.Follower) (exchange.Snapshot, error) {
	q := r.queue(name)
	r.follow(f, topic{exchange.QueueChanged, name})
	s := exchange.Snapshot{Queue: q.Queue, At: r.now}
	for _, t := range q.tickets {
		s.Members = append(s.Members, driver.Member{ID: t.ID, Owner: t.session.Owner, Note: t.Note, Units: t.Units,
			Held: t.State == exchange.Held, Token: t.Token, Since: t.since, Left: t.end.Sub(r.now), Fixed: t.Fixed})
	}
	return s, nil
}

func (r *rows) List(prefix, from string) ([]exchange.Snapshot, error) {
	return page(r.queues, prefix, from, func(name string) (exchange.Snapshot, bool) {
		s, _ := r.Read(name, exchange.Follower{})
		return s, len(s.Members) > 0
	}), nil
}

func (r *rows) Cells(prefix, from string) ([]string, error) {
	return page(r.cells, prefix, from, func(name string) (string, bool) { return name, r.cells[name].Exists }), nil
}

// page lists what comes after from.
func page[V, T any](all map[string]V, prefix, from string, get func(name string) (T, bool)) (some []T) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name > from && strings.HasPrefix(name, prefix) && len(some) < 100 {
			if one, listed := get(name); listed {
				some = append(some, one)
			}
		}
	}
	return some
}

func (r *rows) Load(name string, f exchange.Follower) (driver.Cell, error) {
	r.follow(f, topic{exchange.CellChanged, name})
	return r.cells[name], nil
}

func (r *rows) Swap(s driver.Swap) (driver.Cell, error) {
	if first, ok := r.swaps[s.ID]; ok {
		return first.cell, first.err
	}
	c, err := r.cells[s.Name], driver.ErrConflict
	if c.Version == s.Version {
		if c, err = (driver.Cell{Version: c.Version + 1, Exists: !s.Delete}), nil; c.Exists {
			c.Value = s.Value
		}
		r.cells[s.Name] = c
		r.tell(topic{exchange.CellChanged, s.Name})
	}
	r.swaps[s.ID] = swapped{c, err, r.now.Add(driver.SwapMemory)}
	return c, err
}

func (r *rows) Tidy() error {
	for name := range r.queues {
		r.queue(name)
	}
	maps.DeleteFunc(r.tombstones, func(_ string, end time.Time) bool { return end.Before(r.now) })
	maps.DeleteFunc(r.swaps, func(_ string, s swapped) bool { return s.end.Before(r.now) })
	maps.DeleteFunc(r.queues, func(_ string, q *queue) bool {
		return len(q.tickets) == 0 && !q.unclean && q.token < r.clock()
	})
	return nil
}
