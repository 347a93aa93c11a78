package exchangetest

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/rows"
)

// Store is one client of a world.
type Store struct {
	Skew time.Duration // of the client's clock, which no correct exchange reads
	w    *World

	ctx   context.Context // ends with Close
	close context.CancelFunc

	// World.mu guards these. While one of the first three is not nil, requests, or replies, wait until it is
	// closed, and events are lost.
	requests, replies, deaf chan struct{}
	cut                     chan struct{} // closed when the connection is lost
}

var (
	_ exchange.Store      = (*Store)(nil)
	_ exchange.Detacher   = (*Store)(nil)
	_ exchange.Withdrawer = (*Store)(nil)
	_ exchange.Tidier     = (*Store)(nil)
	_ exchange.Traited    = (*Store)(nil)
	_ exchange.Resizer    = (*Store)(nil)
)

// Store makes a client.
func (w *World) Store() *Store {
	s := &Store{w: w, cut: make(chan struct{})}
	s.ctx, s.close = context.WithCancel(context.Background())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stores = append(w.stores, s)
	return s
}

// Driver is [DriverOf] the store.
func (s *Store) Driver() *exchange.Driver { return DriverOf(s) }

// DriverOf is the client of package exchange on a store, which may be one of a world within another. Its clock is
// that of package time, so that it can live in simulated time.
func DriverOf(s exchange.Store) *exchange.Driver {
	d := exchange.New(s, exchange.NewMailbox())
	d.SetClock(func() driver.Instant { return driver.Instant(time.Since(epoch)) })
	return d
}

// epoch is so long ago because simulated time begins with the year 2000, and no reading shall be
// negative there.
var epoch = time.Now().Add(-50 * 365 * 24 * time.Hour)

// RowOf is the row of a session that a driver of package exchange has opened.
func RowOf(o *driver.Opened) exchange.Session {
	return o.Session.(interface{ Row() exchange.Session }).Row()
}

// Traits implements [exchange.Traited].
func (s *Store) Traits() exchange.Traits {
	return exchange.Traits{Together: 8, Patience: 5 * time.Millisecond}
}

// change makes an exchange with a queue, for a session if it is for one.
func (s *Store) change(ctx context.Context, o exchange.Session, queue string, withholds Fault, does effect) error {
	return do(ctx, s, func(now time.Time) error { return s.w.exchange(o, queue, now, s.w.has(withholds), does) })
}

// Begin implements [exchange.Store].
func (s *Store) Begin(ctx context.Context, o exchange.Session) (exchange.Begun, error) {
	o.TTL = either(s.w, Begin, o.TTL/2, o.TTL)
	return request(ctx, s, func(now time.Time) (exchange.Begun, error) {
		s.w.sessions[o.ID] = s.end(now, o.TTL)
		return exchange.Begun{History: s.w.history}, nil
	})
}

// end is one TTL after an exchange.
func (s *Store) end(now time.Time, ttl time.Duration) time.Time {
	return now.Add(either(s.w, OneClock, s.Skew, 0) + ttl)
}

// End implements [exchange.Store].
func (s *Store) End(ctx context.Context, o exchange.Session, leaves []exchange.Leave) ([]string, error) {
	return request(ctx, s, func(now time.Time) (queues []string, err error) {
		w := s.w
		for _, l := range leaves {
			if w.rowless && !w.has(Leavers) {
				leave := func(q *rows.Queue) error { return q.Leave(l) }
				_ = w.exchange(o, l.Queue, now, w.has(GrantInEnd), leave) // or it does not stand
			}
		}
		if w.rowless || w.has(End) {
			return nil, nil
		}
		delete(w.sessions, o.ID)
		for q, t := range w.tickets(o.ID) {
			if t.End = (time.Time{}); !w.has(EndQueues) && !slices.Contains(queues, q.Name) {
				queues = append(queues, q.Name)
			}
		}
		return queues, nil
	})
}

// Change implements [exchange.Store]. All changes of a list are one exchange, except waiters that leave.
func (s *Store) Change(ctx context.Context, changes []exchange.Change, answer func(int, exchange.Answer)) {
	if exchange.OneQueue(changes) {
		exchange.Each(ctx, s, changes, answer)
		return
	}
	answers, err := request(ctx, s, func(now time.Time) ([]exchange.Answer, error) {
		all := make([]exchange.Answer, len(changes))
		for i, c := range changes {
			if i > 0 && all[i-1].Err != nil && s.w.has(Apart) {
				all[i] = all[i-1]
				continue
			}
			switch c := c.(type) {
			case *exchange.Join:
				all[i].Status, all[i].Err = s.w.join(*c, now)
			case *exchange.Leave:
				all[i].Err = s.w.leave(*c, now)
			default:
				all[i].Err = exchange.ErrAlone
			}
		}
		return all, nil
	})
	if s.w.has(LostTogether) && err != nil {
		answers = make([]exchange.Answer, len(changes))
	} else if err != nil {
		answers = slices.Repeat([]exchange.Answer{{Err: err}}, len(changes))
	}
	for i, a := range answers {
		answer(i, a)
	}
}

// Join implements [exchange.Changer].
func (s *Store) Join(ctx context.Context, j exchange.Join) (exchange.Status, error) {
	free := false
	if s.w.has(Alone) { // a queue that was free in the first exchange need not be so in the second
		q, err := s.Read(ctx, j.Queue, exchange.Follower{})
		free = err == nil && len(q.Members) == 0
	}
	return request(ctx, s, func(now time.Time) (exchange.Status, error) {
		st, err := s.w.join(j, now)
		if err == nil && free {
			st.State, st.Token = exchange.Held, max(st.Token, 1)
		}
		return st, err
	})
}

func (w *World) join(j exchange.Join, now time.Time) (st exchange.Status, err error) {
	j.Note = bytes.Clone(j.Note)
	found := false
	err = w.exchange(j.Session, j.Queue, now, false, func(q *rows.Queue) error {
		end := w.sessions[j.Session.ID]
		stood := q.Ticket(j.ID)
		if stood != nil {
			end = stood.End
			if w.has(OneTicket) || w.has(Copy) && !j.Retry {
				stood.ID += ", which is not found"
			}
		}
		st, err := q.Join(j)
		found = st.Found
		if t := q.Ticket(j.ID); t != nil && (t != stood && w.has(OneEnd) || t == stood && (!w.rowless || w.has(Sent))) {
			t.End = end // only heartbeats move the end of a session
		}
		return err
	})
	if err == nil {
		st = w.look(j.Session, w.queues[j.Queue], j.ID)
		st.Found = found && !w.has(Found)
	}
	return st, err
}

// Leave implements [exchange.Changer].
func (s *Store) Leave(ctx context.Context, l exchange.Leave) (bool, error) {
	if s.w.has(NotBefore) {
		_, _ = run(s.w, func(now time.Time) (any, error) {
			q := s.w.queue(l.Queue, now)
			if t := firstWaiter(q); t != nil {
				st := exchange.Status{State: exchange.Held, Token: q.Token + 1}
				s.w.send(t.Session.Mailbox, exchange.Event{Type: exchange.Granted, ID: t.ID, Status: st})
			}
			return nil, nil
		})
	}
	err := do(ctx, s, func(now time.Time) error { return s.w.leave(l, now) })
	if err == nil && s.w.has(Atomic) {
		return s.Settle(ctx, l.Queue)
	}
	return false, err
}

func (w *World) leave(l exchange.Leave, now time.Time) error {
	l.Tombstone = either(w, Buried, 0, l.Tombstone)
	withholds := w.has(GrantInTheSameExchange) || w.has(Atomic)
	return w.exchange(l.Session, l.Queue, now, withholds, func(q *rows.Queue) error { return q.Leave(l) })
}

// Withdraw implements [exchange.Withdrawer].
func (s *Store) Withdraw(ctx context.Context, o exchange.Session, queue string, ids []string, clean bool) (
	[]bool, bool, error) {
	gone, err := request(ctx, s, func(now time.Time) ([]bool, error) {
		gone := make([]bool, len(ids))
		return gone, s.w.exchange(o, queue, now, s.w.has(GrantInWithdraw), func(q *rows.Queue) error {
			if !s.w.has(Withdraw) {
				copy(gone, q.Withdraw(o, ids, clean))
			}
			return nil
		})
	})
	return gone, false, err
}

// Shrink implements [exchange.Changer].
func (s *Store) Shrink(ctx context.Context, o exchange.Session, ref exchange.Ref, units int64) (bool, error) {
	return false, s.change(ctx, o, ref.Queue, Shrink, func(q *rows.Queue) error { return q.Shrink(o, ref.ID, units) })
}

// Keep implements [exchange.Changer].
func (s *Store) Keep(ctx context.Context, o exchange.Session, ref exchange.Ref, d time.Duration) error {
	return s.change(ctx, o, ref.Queue, "", func(q *rows.Queue) error {
		if t := q.Ticket(ref.ID); t != nil && s.w.has(Keep) {
			t.Evicted = false
		}
		return q.Keep(o, ref.ID, d)
	})
}

// Renew implements [exchange.Store].
func (s *Store) Renew(ctx context.Context, o exchange.Session, tickets []exchange.Ref, extend int) (
	exchange.Renewal, error) {
	w, sent := s.w, clock()
	var first []exchange.Status
	if w.has(ReadFirst) { // what the first exchange has read need not be so in the second
		first, _ = s.Look(ctx, o, tickets)
	}
	return request(ctx, s, func(now time.Time) (exchange.Renewal, error) {
		_, begun := w.sessions[o.ID]
		if err := w.alive(o, now); err != nil && !w.has(ReadFirst) && !(w.has(OverIsOver) && begun) {
			return exchange.Renewal{}, err
		}
		end := s.end(either(w, NeverBack, sent, now), o.TTL) // now was read with the world's mutex
		w.sessions[o.ID] = end
		for _, t := range w.tickets(o.ID) {
			if !w.rowless && !w.strays[t.ID] && !t.Evicted {
				t.End = end
			}
		}
		r := exchange.Renewal{History: w.history, Tickets: first}
		if !w.has(ReadFirst) {
			r.Tickets = w.looks(o, tickets, extend, now)
		}
		for i := range r.Tickets {
			if st := &r.Tickets[i]; w.has(Renew) {
				*st = exchange.Status{State: exchange.Held, Token: 1}
			} else if w.rowless {
				st.Stray = i >= extend && !st.Fixed
			}
		}
		return r, nil
	})
}

// Look implements [exchange.Store].
func (s *Store) Look(ctx context.Context, o exchange.Session, tickets []exchange.Ref) ([]exchange.Status, error) {
	return request(ctx, s, func(now time.Time) ([]exchange.Status, error) { return s.w.looks(o, tickets, 0, now), nil })
}

// looks settles the queues of tickets, and extends the first of these, if sessions have no rows.
func (w *World) looks(o exchange.Session, tickets []exchange.Ref, extend int, now time.Time) []exchange.Status {
	all := make([]exchange.Status, len(tickets))
	for i, ref := range tickets {
		if !w.rowless {
			all[i] = w.look(o, w.queue(ref.Queue, now), ref.ID)
			continue
		}
		_ = w.exchange(o, ref.Queue, now, false, func(q *rows.Queue) error {
			all[i] = q.Look(o, ref.ID, i < extend || w.has(Extend))
			return nil
		})
	}
	return all
}

// Detach implements [exchange.Detacher].
func (s *Store) Detach(ctx context.Context, o exchange.Session, tickets []exchange.Ref) error {
	return s.setStrays(ctx, o, tickets, true, Detach)
}

// Attach implements [exchange.Detacher].
func (s *Store) Attach(ctx context.Context, o exchange.Session, tickets []exchange.Ref) error {
	return s.setStrays(ctx, o, tickets, false, Attach)
}

func (s *Store) setStrays(ctx context.Context, o exchange.Session, refs []exchange.Ref, stray bool, not Fault) error {
	return do(ctx, s, func(now time.Time) error {
		w := s.w
		for _, ref := range refs {
			t := w.queue(ref.Queue, now).Ticket(ref.ID)
			if t == nil || t.Session.ID != o.ID || w.has(not) || !t.End.After(now) && !w.has(AttachExpired) {
				continue
			}
			w.strays[t.ID] = stray
			if end := w.sessions[o.ID]; !stray && !t.Fixed && !t.Evicted && end.After(t.End) {
				t.End = end
			}
		}
		return nil
	})
}

// Tickets implements [exchange.Detacher].
func (s *Store) Tickets(ctx context.Context, o exchange.Session) ([]exchange.Ref, error) {
	return request(ctx, s, func(now time.Time) (all []exchange.Ref, err error) {
		for q, t := range s.w.tickets(o.ID) {
			if t.End.After(now) && !s.w.has(Tickets) {
				all = append(all, exchange.Ref{Queue: q.Name, ID: t.ID})
			}
		}
		return all, nil
	})
}

// Settle implements [exchange.Store].
func (s *Store) Settle(ctx context.Context, queue string) (bool, error) {
	return false, s.change(ctx, exchange.Session{}, queue, "", func(*rows.Queue) error { return nil })
}

// Ask implements [exchange.Store].
func (s *Store) Ask(ctx context.Context, queue, id string, demand driver.Demand) (bool, error) {
	return false, s.change(ctx, exchange.Session{}, queue, GrantInAsk, func(q *rows.Queue) error {
		err := q.Ask(id, demand)
		if t := q.Ticket(id); t != nil && s.w.has(Ask) {
			t.Revoked = false
		}
		return err
	})
}

// Raise implements [exchange.Store].
func (s *Store) Raise(ctx context.Context, queue string, floor uint64) error {
	floor = either(s.w, Raise, 0, floor)
	return s.change(ctx, exchange.Session{}, queue, "", func(q *rows.Queue) error { return q.Raise(floor) })
}

// Resize implements [exchange.Resizer].
func (s *Store) Resize(ctx context.Context, queue string, capacity int64) (bool, error) {
	return false, s.change(ctx, exchange.Session{}, queue, GrantInResize, func(q *rows.Queue) error {
		err := q.Resize(capacity)
		q.Resized = q.Resized && !s.w.has(Resize)
		return err
	})
}

// Clock implements [exchange.Store].
func (s *Store) Clock(ctx context.Context) (int64, error) {
	return request(ctx, s, func(now time.Time) (int64, error) {
		return either(s.w, Clock, now.Add(time.Hour), now).UnixMicro(), nil
	})
}

// Read implements [exchange.Store].
func (s *Store) Read(ctx context.Context, queue string, f exchange.Follower) (exchange.Snapshot, error) {
	f = either(s.w, Read, exchange.Follower{}, f)
	return request(ctx, s, func(now time.Time) (exchange.Snapshot, error) { return s.w.read(queue, f, now), nil })
}

// read settles nothing, and leaves out what has expired.
func (w *World) read(queue string, f exchange.Follower, now time.Time) exchange.Snapshot {
	r := w.queue(queue, now).Read(f)
	r.Members = slices.DeleteFunc(r.Members, func(m driver.Member) bool { return m.Left <= 0 })
	r.Version = "" // of what is left the client says it
	for i := range r.Members {
		r.Members[i].Note = bytes.Clone(r.Members[i].Note)
	}
	return r
}

// List implements [exchange.Store].
func (s *Store) List(ctx context.Context, prefix, after string) (all []exchange.Snapshot, next string, err error) {
	all, err = request(ctx, s, func(now time.Time) (all []exchange.Snapshot, err error) {
		stands := func(name string) bool { return len(s.w.queues[name].Tickets) > 0 }
		for _, name := range rows.Page(s.w.queues, prefix, after, stands) {
			all = append(all, s.w.read(name, exchange.Follower{}, now))
		}
		return all, nil
	})
	if len(all) > 0 && !s.w.has(List) {
		next = all[len(all)-1].Name
	}
	return all, next, err
}

// Cells implements [exchange.Store].
func (s *Store) Cells(ctx context.Context, prefix, after string) (names []string, next string, err error) {
	if s.w.has(Cells) && after != "" {
		after = after[:len(after)-1]
	}
	names, err = request(ctx, s, func(time.Time) ([]string, error) {
		return rows.Page(s.w.cells, prefix, after, func(name string) bool { return s.w.cells[name].Exists }), nil
	})
	if len(names) > 0 {
		next = names[len(names)-1]
	}
	return names, next, err
}

// Load implements [exchange.Store].
func (s *Store) Load(ctx context.Context, name string, f exchange.Follower) (driver.Cell, error) {
	f = either(s.w, Load, exchange.Follower{}, f)
	return request(ctx, s, func(now time.Time) (driver.Cell, error) {
		cell := row(s.w.cells, name, rows.Cell{Name: name})
		rows.Begin(cell, now)
		c := cell.Load(f)
		c.Value = bytes.Clone(c.Value)
		return c, nil
	})
}

// Swap implements [exchange.Store].
func (s *Store) Swap(ctx context.Context, n driver.Swap) (driver.Cell, error) {
	n.Value = append([]byte{}, n.Value...)
	return request(ctx, s, func(now time.Time) (driver.Cell, error) {
		cell := row(s.w.cells, n.Name, rows.Cell{Name: n.Name})
		if s.w.has(OnlyOnce) {
			delete(cell.Swaps, n.ID)
		}
		x := rows.Begin(cell, now)
		c, err := cell.Swap(n)
		for _, ev := range x.Events {
			s.w.send(ev.Mailbox, ev.Event)
		}
		c.Value = bytes.Clone(c.Value)
		return c, err
	})
}

// Tidy implements [exchange.Tidier].
func (s *Store) Tidy(ctx context.Context) ([]string, error) {
	return request(ctx, s, func(now time.Time) (queues []string, err error) {
		for name := range s.w.queues {
			q := s.w.queue(name, now)
			if hasExpired(q) {
				queues = append(queues, name)
			} else if rows.Begin(q, now); q.Empty() || s.w.has(Tidy) && len(q.Tickets) == 0 {
				delete(s.w.queues, name)
			}
		}
		return queues, nil
	})
}

// Check implements [exchange.Store].
func (s *Store) Check(ctx context.Context) []driver.Finding {
	f := driver.Finding{Check: "connection", Status: driver.OK, Detail: "the world answers"}
	if _, err := s.Clock(ctx); err != nil && !s.w.has(Check) {
		f.Status, f.Detail, f.Promise, f.Remedy = driver.Fail, err.Error(), "all of them", "end what disturbs the network"
	}
	return []driver.Finding{f}
}

// Explain implements [exchange.Store].
func (s *Store) Explain(err error) error {
	return either(s.w, Explain, driver.Permanent(err), err)
}
