package exchangetest

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Store is one client of a world.
type Store struct {
	Script Script
	Skew   time.Duration // of the client's clock, which no correct exchange reads
	w      *World
	link   *link
}

var (
	_ exchange.Store      = (*Store)(nil)
	_ exchange.Detacher   = (*Store)(nil)
	_ exchange.Withdrawer = (*Store)(nil)
	_ exchange.Tidier     = (*Store)(nil)
)

// Store makes a client.
func (w *World) Store() *Store {
	s := &Store{w: w, link: newLink()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.links = append(w.links, s)
	return s
}

// Driver is the client of package exchange on a store. Its clock is that of package time, so that
// it can live in simulated time.
func (s *Store) Driver() *exchange.Driver {
	d := exchange.New(s, exchange.NewMailbox())
	d.SetClock(sinceEpoch)
	return d
}

// RowOf is the row of a session that a driver of package exchange has opened.
func RowOf(o *driver.Opened) exchange.Session {
	return o.Session.(interface{ Row() exchange.Session }).Row()
}

func sinceEpoch() driver.Instant { return driver.Instant(time.Since(epoch)) }

// epoch is so long ago because simulated time begins with the year 2000, and no reading shall be
// negative there.
var epoch = time.Now().Add(-50 * 365 * 24 * time.Hour)

// Begin implements [exchange.Store].
func (s *Store) Begin(ctx context.Context, o exchange.Session) (exchange.Begun, error) {
	if s.Script.Begin != nil {
		return s.Script.Begin(ctx, o)
	}
	return request(ctx, s, func(now time.Time) (exchange.Begun, error) {
		row := &session{id: o.ID, owner: o.Owner, ttl: o.TTL, mailbox: o.Mailbox, end: s.end(now, o.TTL)}
		if s.w.has(Begin) {
			row.end = now.Add(o.TTL / 2)
		}
		s.w.sessions[o.ID] = row
		return exchange.Begun{History: s.w.history}, nil
	})
}

// end is one TTL after an exchange.
func (s *Store) end(now time.Time, ttl time.Duration) time.Time {
	if s.w.has(OneClock) {
		now = now.Add(s.Skew)
	}
	return now.Add(ttl)
}

// End implements [exchange.Store].
func (s *Store) End(ctx context.Context, o exchange.Session, tickets []exchange.Leave) ([]string, error) {
	if s.Script.End != nil {
		return s.Script.End(ctx, o, tickets)
	}
	id := o.ID
	return request(ctx, s, func(time.Time) (queues []string, err error) {
		if row := s.w.sessions[id]; row != nil && !s.w.has(End) {
			row.over = true
		}
		for name, q := range s.w.queues {
			if slices.ContainsFunc(q.tickets, func(t *ticket) bool { return t.session.id == id && !t.fixed }) && !s.w.has(EndQueues) {
				queues = append(queues, name)
			}
		}
		return queues, nil
	})
}

// Join implements [exchange.Store].
func (s *Store) Join(ctx context.Context, j exchange.Join) (exchange.Status, error) {
	if s.Script.Join != nil {
		return s.Script.Join(ctx, j)
	}
	if s.w.has(Alone) {
		return s.joinByTwo(ctx, j)
	}
	return request(ctx, s, func(now time.Time) (exchange.Status, error) { return s.w.join(j, now) })
}

// joinByTwo is the fault Alone: a queue that was free in the first exchange need not be so in the
// second.
func (s *Store) joinByTwo(ctx context.Context, j exchange.Join) (exchange.Status, error) {
	free, err := request(ctx, s, func(time.Time) (bool, error) { return len(s.w.queue(j.Queue).tickets) == 0, nil })
	if err != nil {
		return exchange.Status{}, err
	}
	return request(ctx, s, func(now time.Time) (exchange.Status, error) {
		st, err := s.w.join(j, now)
		if err == nil && free {
			st.State, st.Token = exchange.Held, max(st.Token, 1)
		}
		return st, err
	})
}

func (w *World) join(j exchange.Join, now time.Time) (exchange.Status, error) {
	row, err := w.alive(j.Session.ID, now)
	if err != nil {
		return exchange.Status{}, err
	}
	if t := w.tickets[j.ID]; t != nil && t.end(w).After(now) && !w.has(OneTicket) && (j.Retry || !w.has(Copy)) {
		switch {
		case t.session != row:
			return exchange.Status{}, driver.ErrGone
		case t.queue.name != j.Queue:
			return exchange.Status{}, driver.ErrMismatch
		}
		return w.status(t, now), nil
	}
	if w.tombs[j.ID].After(now) {
		return exchange.Status{}, driver.ErrGone
	}
	q := w.queue(j.Queue)
	if !w.has(Settle) {
		w.settle(q, now)
	}
	switch {
	case len(q.tickets) == 0 && !q.resized:
		q.kind, q.capacity = j.Kind, j.Capacity
	case q.kind != j.Kind || q.capacity != j.Capacity:
		return exchange.Status{}, driver.ErrMismatch
	}
	if max(q.last, w.floor, uint64(now.UnixMicro()/10))+uint64(len(q.tickets))+2 >= driver.MaxToken {
		return exchange.Status{}, exchange.ErrTokens
	}
	if j.NoWait && (q.granted < len(q.tickets) || j.Units > q.capacity-q.used) {
		return exchange.Status{}, driver.ErrBusy
	}
	t := &ticket{Request: j.Request, queue: q, session: row, owner: j.Session.Owner, since: now}
	t.Note = bytes.Clone(j.Note)
	w.tickets[j.ID] = t
	q.tickets = append(q.tickets, t)
	w.changed(q)
	w.settle(q, now)
	return w.status(t, now), nil
}

// Leave implements [exchange.Store].
func (s *Store) Leave(ctx context.Context, l exchange.Leave) (bool, error) {
	if s.Script.Leave != nil {
		return s.Script.Leave(ctx, l)
	}
	if s.w.has(NotBefore) {
		s.tellTheNext(l.Ref)
	}
	unsettled, err := request(ctx, s, func(now time.Time) (bool, error) {
		w := s.w
		if _, err := w.alive(l.Session.ID, now); err != nil {
			return false, err
		}
		if l.Tombstone > 0 && !w.has(Buried) {
			w.tombs[l.ID] = now.Add(l.Tombstone)
		}
		t := w.find(l.Session.ID, l.Queue, l.ID, true, now)
		if t == nil {
			return false, driver.ErrGone
		}
		w.remove(t, l.Clean)
		if w.has(GrantInTheSameExchange) || w.has(Atomic) {
			return false, nil
		}
		return w.settle(t.queue, now), nil
	})
	if err == nil && s.w.has(Atomic) {
		return s.Settle(ctx, l.Queue)
	}
	return unsettled, err
}

// tellTheNext is the fault NotBefore.
func (s *Store) tellTheNext(leaves exchange.Ref) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if q := s.w.queue(leaves.Queue); q.granted == 1 && q.tickets[0].ID == leaves.ID && len(q.tickets) > 1 {
		next := q.tickets[1]
		s.w.send(next.session.mailbox, exchange.Event{Type: exchange.Granted, ID: next.ID, Status: exchange.Status{State: exchange.Held, Token: q.last + 1}})
	}
}

// Withdraw implements [exchange.Store].
func (s *Store) Withdraw(ctx context.Context, o exchange.Session, queue string, ids []string, clean bool) ([]bool, bool, error) {
	id := o.ID
	if s.Script.Withdraw != nil {
		return s.Script.Withdraw(ctx, o, queue, ids, clean)
	}
	type reply struct {
		gone      []bool
		unsettled bool
	}
	r, err := request(ctx, s, func(now time.Time) (reply, error) {
		w := s.w
		if _, err := w.alive(id, now); err != nil {
			return reply{}, err
		}
		r := reply{gone: make([]bool, len(ids))}
		for i, one := range ids {
			t := w.find(id, queue, one, false, now)
			if r.gone[i] = t == nil; t != nil && !w.has(Withdraw) {
				w.remove(t, clean)
			}
		}
		if !w.has(GrantInWithdraw) {
			r.unsettled = w.settle(w.queue(queue), now)
		}
		return r, nil
	})
	return r.gone, r.unsettled, err
}

// Shrink implements [exchange.Store].
func (s *Store) Shrink(ctx context.Context, o exchange.Session, ref exchange.Ref, units int64) (bool, error) {
	id := o.ID
	return request(ctx, s, func(now time.Time) (bool, error) {
		w := s.w
		if _, err := w.alive(id, now); err != nil {
			return false, err
		}
		t := w.find(id, ref.Queue, ref.ID, false, now)
		switch {
		case t == nil:
			return false, driver.ErrGone
		case units >= t.Units:
			return false, nil
		}
		q := t.queue
		if t.held {
			if q.exclusive(t) {
				q.unclean = false // the exclusive hold has ended well
			}
			q.used -= t.Units - units
		}
		t.Units = units
		w.changed(q)
		if w.has(Shrink) {
			return false, nil
		}
		return w.settle(q, now), nil
	})
}

// Keep implements [exchange.Store].
func (s *Store) Keep(ctx context.Context, o exchange.Session, ref exchange.Ref, d time.Duration) error {
	if s.Script.Keep != nil {
		return s.Script.Keep(ctx, o, ref, d)
	}
	id, owner := o.ID, o.Owner
	_, err := request(ctx, s, func(now time.Time) (struct{}, error) {
		w := s.w
		if _, err := w.alive(id, now); err != nil {
			return struct{}{}, err
		}
		t := w.find(id, ref.Queue, ref.ID, true, now)
		switch {
		case t == nil:
			return struct{}{}, driver.ErrGone
		case !t.held:
			return struct{}{}, exchange.ErrNotHeld
		case t.evicted && now.Add(d).After(t.ends) && !w.has(Keep):
			return struct{}{}, driver.ErrGone
		}
		if t.session.id == id {
			t.owner = owner
		}
		t.kept = t.kept || t.Hold == 0
		t.fixed, t.hold, t.ends = true, d, now.Add(d)
		w.changed(t.queue)
		return struct{}{}, nil
	})
	return err
}

// Renew implements [exchange.Store].
func (s *Store) Renew(ctx context.Context, o exchange.Session, tickets []exchange.Ref, extend int) (exchange.Renewal, error) {
	id := o.ID
	if s.Script.Renew != nil {
		return s.Script.Renew(ctx, o, tickets, extend)
	}
	sent := clock()
	if s.w.has(ReadFirst) {
		return s.renewByTwo(ctx, o, tickets)
	}
	return request(ctx, s, func(now time.Time) (exchange.Renewal, error) {
		w := s.w
		row, err := w.alive(id, now)
		if err != nil {
			if row = w.sessions[id]; row == nil || row.over || !w.has(OverIsOver) {
				return exchange.Renewal{}, err
			}
		}
		row.end = s.end(now, row.ttl) // never back: now was read with the world's mutex
		if w.has(NeverBack) {
			row.end = sent.Add(row.ttl)
		}
		r := exchange.Renewal{History: w.history}
		for _, ref := range tickets {
			if w.has(Renew) {
				r.Tickets = append(r.Tickets, exchange.Status{State: exchange.Held, Token: 1})
				continue
			}
			r.Tickets = append(r.Tickets, w.look(id, ref, now))
		}
		return r, nil
	})
}

// renewByTwo is the fault ReadFirst: what the first exchange has read need not be so in the second.
func (s *Store) renewByTwo(ctx context.Context, o exchange.Session, tickets []exchange.Ref) (exchange.Renewal, error) {
	r, err := request(ctx, s, func(now time.Time) (exchange.Renewal, error) {
		r := exchange.Renewal{History: s.w.history}
		for _, ref := range tickets {
			r.Tickets = append(r.Tickets, s.w.look(o.ID, ref, now))
		}
		_, err := s.w.alive(o.ID, now)
		return r, err
	})
	if err != nil {
		return r, err
	}
	return request(ctx, s, func(now time.Time) (exchange.Renewal, error) {
		row := s.w.sessions[o.ID]
		row.end = s.end(now, row.ttl)
		return r, nil
	})
}

// Look implements [exchange.Store].
func (s *Store) Look(ctx context.Context, o exchange.Session, tickets []exchange.Ref) ([]exchange.Status, error) {
	id := o.ID
	if s.Script.Look != nil {
		return s.Script.Look(ctx, o, tickets)
	}
	return request(ctx, s, func(now time.Time) (all []exchange.Status, err error) {
		for _, ref := range tickets {
			if s.w.has(Look) {
				if t := s.w.tickets[ref.ID]; t != nil {
					all = append(all, s.w.status(t, now))
					continue
				}
			}
			all = append(all, s.w.look(id, ref, now))
		}
		return all, nil
	})
}

// Detach implements [exchange.Store].
func (s *Store) Detach(ctx context.Context, o exchange.Session, tickets []exchange.Ref) error {
	id := o.ID
	if s.Script.Detach != nil {
		return s.Script.Detach(ctx, o, tickets)
	}
	return s.each(ctx, tickets, func(ref exchange.Ref, now time.Time) {
		if t := s.w.find(id, ref.Queue, ref.ID, false, now); t != nil && !t.fixed && !s.w.has(Detach) {
			t.own(s.w)
			t.stray = true
		}
	})
}

// Attach implements [exchange.Store].
func (s *Store) Attach(ctx context.Context, o exchange.Session, tickets []exchange.Ref) error {
	id := o.ID
	if s.Script.Attach != nil {
		return s.Script.Attach(ctx, o, tickets)
	}
	return s.each(ctx, tickets, func(ref exchange.Ref, now time.Time) {
		t := s.w.find(id, ref.Queue, ref.ID, false, now)
		if s.w.has(AttachExpired) {
			t = s.w.tickets[ref.ID]
		}
		if t != nil && !s.w.has(Attach) {
			t.stray = false
		}
	})
}

func (s *Store) each(ctx context.Context, tickets []exchange.Ref, f func(exchange.Ref, time.Time)) error {
	_, err := request(ctx, s, func(now time.Time) (struct{}, error) {
		for _, ref := range tickets {
			f(ref, now)
		}
		return struct{}{}, nil
	})
	return err
}

// Tickets implements [exchange.Store].
func (s *Store) Tickets(ctx context.Context, o exchange.Session) ([]exchange.Ref, error) {
	id := o.ID
	if s.Script.Tickets != nil {
		return s.Script.Tickets(ctx, o)
	}
	return request(ctx, s, func(now time.Time) (all []exchange.Ref, err error) {
		for _, t := range s.w.tickets {
			if t.session.id == id && !t.fixed && t.end(s.w).After(now) && !s.w.has(Tickets) {
				all = append(all, exchange.Ref{Queue: t.queue.name, ID: t.ID})
			}
		}
		return all, nil
	})
}

// Settle implements [exchange.Store].
func (s *Store) Settle(ctx context.Context, queue string) (bool, error) {
	if s.Script.Settle != nil {
		return s.Script.Settle(ctx, queue)
	}
	return request(ctx, s, func(now time.Time) (bool, error) {
		if s.w.has(Settle) {
			return false, nil
		}
		return s.w.settle(s.w.queue(queue), now), nil
	})
}

// Ask implements [exchange.Store].
func (s *Store) Ask(ctx context.Context, queue, id string, demand driver.Demand) (bool, error) {
	return request(ctx, s, func(now time.Time) (bool, error) {
		w := s.w
		t := w.tickets[id]
		if t == nil || t.queue.name != queue || !t.end(w).After(now) {
			return false, driver.ErrGone
		}
		ev := exchange.Event{Type: exchange.Demanded, ID: id, Demand: demand}
		removed := demand == driver.Force || demand == driver.Evict && !t.held
		switch {
		case removed:
			ev = exchange.Event{Type: exchange.Removed, ID: id}
		case demand == driver.Evict:
			t.own(w)
			if end := now.Add(t.session.ttl); t.fixed && end.Before(t.ends) {
				t.ends = end
			}
			t.evicted = true
		default:
			t.revoked = !w.has(Ask)
		}
		w.send(t.session.mailbox, ev)
		if removed {
			w.remove(t, false)
			return !w.has(GrantInAsk) && w.settle(t.queue, now), nil
		}
		return false, nil
	})
}

// Raise implements [exchange.Store].
func (s *Store) Raise(ctx context.Context, queue string, floor uint64) error {
	_, err := request(ctx, s, func(time.Time) (struct{}, error) {
		if q := s.w.queue(queue); !s.w.has(Raise) {
			q.last = max(q.last, floor)
		}
		return struct{}{}, nil
	})
	return err
}

// Resize implements [exchange.Resizer].
func (s *Store) Resize(ctx context.Context, queue string, capacity int64) (bool, error) {
	return request(ctx, s, func(now time.Time) (bool, error) {
		w, q := s.w, s.w.queue(queue)
		if !w.has(Settle) {
			w.settle(q, now)
		}
		if len(q.tickets) > 0 && q.kind != driver.Semaphore {
			return false, driver.ErrMismatch
		}
		q.resized = capacity > 0 && !w.has(Resize)
		if capacity > 0 {
			q.kind, q.capacity = driver.Semaphore, capacity
		}
		for _, t := range slices.Clone(q.tickets) {
			if !t.held && t.Units > q.capacity {
				w.send(t.session.mailbox, exchange.Event{Type: exchange.Removed, ID: t.ID})
				w.remove(t, true)
			}
		}
		w.changed(q)
		return !w.has(GrantInResize) && w.settle(q, now), nil
	})
}

// Clock implements [exchange.Store].
func (s *Store) Clock(ctx context.Context) (int64, error) {
	return request(ctx, s, func(now time.Time) (int64, error) {
		if s.w.has(Clock) {
			now = now.Add(time.Hour)
		}
		return now.UnixMicro(), nil
	})
}

// Read implements [exchange.Store].
func (s *Store) Read(ctx context.Context, queue string, f exchange.Follower) (exchange.Snapshot, error) {
	if s.Script.Read != nil {
		return s.Script.Read(ctx, queue, f)
	}
	return request(ctx, s, func(now time.Time) (exchange.Snapshot, error) {
		if f.Mailbox != "" && !s.w.has(Read) {
			s.w.queue(queue).follow[f.Mailbox] = true
		}
		if q := s.w.queues[queue]; q != nil {
			return s.w.snapshot(q, now), nil
		}
		return exchange.Snapshot{Queue: driver.Queue{Name: queue}, At: now}, nil
	})
}

// List implements [exchange.Store].
func (s *Store) List(ctx context.Context, prefix, after string) ([]exchange.Snapshot, string, error) {
	type reply struct {
		all  []exchange.Snapshot
		next string
	}
	r, err := request(ctx, s, func(now time.Time) (r reply, err error) {
		for _, name := range page(s.w.queues, prefix, after, func(q *queue) bool { return len(q.tickets) > 0 }) {
			r.all, r.next = append(r.all, s.w.snapshot(s.w.queues[name], now)), name
		}
		if s.w.has(List) {
			r.next = ""
		}
		return r, nil
	})
	return r.all, r.next, err
}

// Cells implements [exchange.Store].
func (s *Store) Cells(ctx context.Context, prefix, after string) (names []string, next string, err error) {
	names, err = request(ctx, s, func(time.Time) ([]string, error) {
		if s.w.has(Cells) && after != "" {
			after = after[:len(after)-1]
		}
		return page(s.w.cells, prefix, after, func(c *cell) bool { return c.Exists }), nil
	})
	if len(names) > 0 {
		next = names[len(names)-1]
	}
	return names, next, err
}

// page is the next names in their order.
func page[T any](all map[string]T, prefix, after string, wanted func(T) bool) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(name, prefix) && name > after && wanted(all[name]) && len(names) < batch {
			names = append(names, name)
		}
	}
	return names
}

// Load implements [exchange.Store].
func (s *Store) Load(ctx context.Context, name string, f exchange.Follower) (driver.Cell, error) {
	if s.Script.Load != nil {
		return s.Script.Load(ctx, name, f)
	}
	return request(ctx, s, func(time.Time) (driver.Cell, error) {
		c := s.w.cell(name)
		if f.Mailbox != "" && !s.w.has(Load) {
			c.watch[f.Mailbox] = true
		}
		got := c.Cell
		got.Value = bytes.Clone(got.Value)
		return got, nil
	})
}

// Swap implements [exchange.Store].
func (s *Store) Swap(ctx context.Context, n driver.Swap) (driver.Cell, error) {
	return request(ctx, s, func(now time.Time) (driver.Cell, error) {
		w := s.w
		if done, again := w.swaps[n.ID]; again && !w.has(OnlyOnce) {
			return done.cell, done.err
		}
		c := w.cell(n.Name)
		if c.Version != n.Version {
			w.swaps[n.ID] = swap{err: driver.ErrConflict, at: now}
			return driver.Cell{}, driver.ErrConflict
		}
		c.Cell = driver.Cell{Version: c.Version + 1, Exists: !n.Delete}
		if c.Exists {
			c.Value = append([]byte{}, n.Value...)
		}
		w.swaps[n.ID] = swap{cell: c.Cell, at: now}
		for mailbox := range c.watch {
			w.send(mailbox, exchange.Event{Type: exchange.CellChanged, Cell: n.Name})
		}
		clear(c.watch)
		got := c.Cell
		got.Value = bytes.Clone(got.Value)
		return got, nil
	})
}

// Tidy implements [exchange.Store].
func (s *Store) Tidy(ctx context.Context) ([]string, error) {
	return request(ctx, s, func(now time.Time) (queues []string, err error) {
		w := s.w
		maps.DeleteFunc(w.tombs, func(_ string, until time.Time) bool { return !until.After(now) })
		maps.DeleteFunc(w.swaps, func(_ string, done swap) bool { return now.Sub(done.at) > 2*driver.SwapMemory })
		for name, q := range w.queues {
			if slices.ContainsFunc(q.tickets, func(t *ticket) bool { return !t.end(w).After(now) }) {
				queues = append(queues, name)
			}
		}
		maps.DeleteFunc(w.queues, func(_ string, q *queue) bool {
			old := !q.unclean && !q.resized && q.last < uint64(now.UnixMicro()/10) // it says no more than a new row
			return len(q.tickets)+len(q.follow) == 0 && (old || w.has(Tidy))
		})
		return queues, nil
	})
}

// Check implements [exchange.Store].
func (s *Store) Check(ctx context.Context) []driver.Finding {
	_, err := s.Clock(ctx)
	if err != nil && !s.w.has(Check) {
		return []driver.Finding{{Check: "connection", Status: driver.Fail, Detail: err.Error(), Promise: "all of them", Remedy: "end what disturbs the network"}}
	}
	return []driver.Finding{{Check: "connection", Status: driver.OK, Detail: "the world answers"}}
}

// Explain implements [exchange.Store].
func (s *Store) Explain(err error) error {
	if s.w.has(Explain) {
		return driver.Permanent(err)
	}
	return err
}
