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
	link
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
	s := &Store{w: w, link: newLink()}
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

// change makes an exchange with a queue, for a session that is not over, if it is for one.
func (s *Store) change(ctx context.Context, o exchange.Session, queue string, withholds bool,
	does func(*rows.Queue) error) error {
	return do(ctx, s, func(now time.Time) error {
		if o.ID != "" {
			if err := s.w.alive(o.ID, now); err != nil {
				return err
			}
		}
		return s.w.exchange(queue, now, withholds, does)
	})
}

// Begin implements [exchange.Store].
func (s *Store) Begin(ctx context.Context, o exchange.Session) (exchange.Begun, error) {
	return request(ctx, s, func(now time.Time) (exchange.Begun, error) {
		row := &session{end: s.end(now, o.TTL)}
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
	return request(ctx, s, func(time.Time) (queues []string, err error) {
		if row := s.w.sessions[o.ID]; row != nil && !s.w.has(End) {
			row.over = true
		}
		for name, q := range s.w.queues {
			ends := func(t *rows.Ticket) bool { return t.Session.ID == o.ID && !t.Fixed }
			if slices.ContainsFunc(q.Tickets, ends) && !s.w.has(EndQueues) {
				queues = append(queues, name)
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
	answers := make([]exchange.Answer, len(changes))
	err := do(ctx, s, func(now time.Time) error {
		for i, c := range changes {
			if i > 0 && answers[i-1].Err != nil && s.w.has(Apart) {
				answers[i] = answers[i-1]
				continue
			}
			switch c := c.(type) {
			case *exchange.Join:
				answers[i].Status, answers[i].Err = s.w.join(*c, now)
			case *exchange.Leave:
				answers[i].Err = s.w.leave(*c, now)
			default:
				answers[i].Err = exchange.ErrAlone
			}
		}
		return nil
	})
	for i := range changes {
		if err != nil && !s.w.has(LostTogether) {
			answers[i] = exchange.Answer{Err: err}
		}
		answer(i, answers[i])
	}
}

// Join implements [exchange.Changer].
func (s *Store) Join(ctx context.Context, j exchange.Join) (exchange.Status, error) {
	free := false
	if s.w.has(Alone) { // a queue that was free in the first exchange need not be so in the second
		q, err := s.Read(ctx, j.Queue, exchange.Follower{})
		if err != nil {
			return exchange.Status{}, err
		}
		free = len(q.Members) == 0
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
	if err := w.alive(j.Session.ID, now); err != nil {
		return st, err
	}
	stood := w.find(j.Session, exchange.Ref{Queue: j.Queue, ID: j.ID}, now)
	if stood != nil && (w.has(OneTicket) || w.has(Copy) && !j.Retry) {
		stood.ID += ", which is not found"
	}
	err = w.exchange(j.Queue, now, false, func(q *rows.Queue) error {
		if stood != nil && w.has(Sent) {
			defer func(end time.Time) { stood.End = end }(stood.End)
		}
		_, err := q.Join(j)
		return err
	})
	if err == nil {
		st = w.look(j.Session, w.queues[j.Queue], j.ID, false)
	}
	return st, err
}

// Leave implements [exchange.Changer].
func (s *Store) Leave(ctx context.Context, l exchange.Leave) (bool, error) {
	if s.w.has(NotBefore) {
		s.tellTheNext(l.Ref)
	}
	err := do(ctx, s, func(now time.Time) error { return s.w.leave(l, now) })
	if err == nil && s.w.has(Atomic) {
		return s.Settle(ctx, l.Queue)
	}
	return false, err
}

func (w *World) leave(l exchange.Leave, now time.Time) error {
	if w.has(Buried) {
		l.Tombstone = 0
	}
	if err := w.alive(l.Session.ID, now); err != nil {
		return err
	}
	withholds := w.has(GrantInTheSameExchange) || w.has(Atomic)
	return w.exchange(l.Queue, now, withholds, func(q *rows.Queue) error { return q.Leave(l) })
}

// tellTheNext is the fault NotBefore.
func (s *Store) tellTheNext(leaves exchange.Ref) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	q := s.w.queue(leaves.Queue, clock())
	if next := firstWaiter(q); next != nil && q.Tickets[0].ID == leaves.ID {
		st := exchange.Status{State: exchange.Held, Token: q.Token + 1}
		s.w.send(next.Session.Mailbox, exchange.Event{Type: exchange.Granted, ID: next.ID, Status: st})
	}
}

// Withdraw implements [exchange.Withdrawer].
func (s *Store) Withdraw(ctx context.Context, o exchange.Session, queue string, ids []string, clean bool) (
	[]bool, bool, error) {
	gone, err := request(ctx, s, func(now time.Time) (gone []bool, err error) {
		if err := s.w.alive(o.ID, now); err != nil {
			return nil, err
		}
		err = s.w.exchange(queue, now, s.w.has(GrantInWithdraw), func(q *rows.Queue) error {
			if gone = make([]bool, len(ids)); !s.w.has(Withdraw) {
				gone = q.Withdraw(o, ids, clean)
			}
			return nil
		})
		return gone, err
	})
	return gone, false, err
}

// Shrink implements [exchange.Changer].
func (s *Store) Shrink(ctx context.Context, o exchange.Session, ref exchange.Ref, units int64) (bool, error) {
	shrink := func(q *rows.Queue) error { return q.Shrink(o, ref.ID, units) }
	return false, s.change(ctx, o, ref.Queue, s.w.has(Shrink), shrink)
}

// Keep implements [exchange.Changer].
func (s *Store) Keep(ctx context.Context, o exchange.Session, ref exchange.Ref, d time.Duration) error {
	return s.change(ctx, o, ref.Queue, false, func(q *rows.Queue) error {
		if t := q.Ticket(ref.ID); t != nil && s.w.has(Keep) {
			t.Evicted = false
		}
		return q.Keep(o, ref.ID, d)
	})
}

// Renew implements [exchange.Store].
func (s *Store) Renew(ctx context.Context, o exchange.Session, tickets []exchange.Ref, _ int) (exchange.Renewal, error) {
	sent := clock()
	var first []exchange.Status
	if s.w.has(ReadFirst) { // what the first exchange has read need not be so in the second
		var err error
		if first, err = s.Look(ctx, o, tickets); err != nil {
			return exchange.Renewal{}, err
		}
	}
	return request(ctx, s, func(now time.Time) (exchange.Renewal, error) {
		w := s.w
		row, err := w.sessions[o.ID], w.alive(o.ID, now)
		if err != nil && !w.has(ReadFirst) && !(w.has(OverIsOver) && row != nil && !row.over) {
			return exchange.Renewal{}, err
		}
		row.end = s.end(now, o.TTL) // never back: now was read with the world's mutex
		if w.has(NeverBack) {
			row.end = sent.Add(o.TTL)
		}
		r := exchange.Renewal{History: w.history, Tickets: first}
		if !w.has(ReadFirst) {
			r.Tickets = w.looks(o, tickets, now)
		}
		for i := range r.Tickets {
			if w.has(Renew) {
				r.Tickets[i] = exchange.Status{State: exchange.Held, Token: 1}
			}
		}
		return r, nil
	})
}

// Look implements [exchange.Store].
func (s *Store) Look(ctx context.Context, o exchange.Session, tickets []exchange.Ref) ([]exchange.Status, error) {
	return request(ctx, s, func(now time.Time) ([]exchange.Status, error) { return s.w.looks(o, tickets, now), nil })
}

func (w *World) looks(o exchange.Session, tickets []exchange.Ref, now time.Time) []exchange.Status {
	all := make([]exchange.Status, len(tickets))
	for i, ref := range tickets {
		all[i] = w.look(o, w.queue(ref.Queue, now), ref.ID, false)
	}
	return all
}

// Detach implements [exchange.Detacher].
func (s *Store) Detach(ctx context.Context, o exchange.Session, tickets []exchange.Ref) error {
	return s.setStrays(ctx, o, tickets, true)
}

// Attach implements [exchange.Detacher].
func (s *Store) Attach(ctx context.Context, o exchange.Session, tickets []exchange.Ref) error {
	return s.setStrays(ctx, o, tickets, false)
}

func (s *Store) setStrays(ctx context.Context, o exchange.Session, tickets []exchange.Ref, stray bool) error {
	return do(ctx, s, func(now time.Time) error {
		for _, ref := range tickets {
			stands := s.w.find(o, ref, now) != nil || !stray && s.w.has(AttachExpired)
			if stands && !s.w.has(map[bool]Fault{true: Detach, false: Attach}[stray]) {
				s.w.strays[ref.ID] = stray
			}
		}
		return nil
	})
}

// Tickets implements [exchange.Detacher].
func (s *Store) Tickets(ctx context.Context, o exchange.Session) ([]exchange.Ref, error) {
	return request(ctx, s, func(now time.Time) (all []exchange.Ref, err error) {
		for name := range s.w.queues {
			for _, t := range s.w.queue(name, now).Tickets {
				if t.Session.ID == o.ID && !t.Fixed && t.End.After(now) && !s.w.has(Tickets) {
					all = append(all, exchange.Ref{Queue: name, ID: t.ID})
				}
			}
		}
		return all, nil
	})
}

// Settle implements [exchange.Store].
func (s *Store) Settle(ctx context.Context, queue string) (bool, error) {
	return false, s.change(ctx, exchange.Session{}, queue, false, func(*rows.Queue) error { return nil })
}

// Ask implements [exchange.Store].
func (s *Store) Ask(ctx context.Context, queue, id string, demand driver.Demand) (bool, error) {
	return false, s.change(ctx, exchange.Session{}, queue, s.w.has(GrantInAsk), func(q *rows.Queue) error {
		err := q.Ask(id, demand)
		if t := q.Ticket(id); t != nil && s.w.has(Ask) {
			t.Revoked = false
		}
		return err
	})
}

// Raise implements [exchange.Store].
func (s *Store) Raise(ctx context.Context, queue string, floor uint64) error {
	return s.change(ctx, exchange.Session{}, queue, false, func(q *rows.Queue) error {
		if !s.w.has(Raise) {
			q.Raise(floor)
		}
		return nil
	})
}

// Resize implements [exchange.Resizer].
func (s *Store) Resize(ctx context.Context, queue string, capacity int64) (bool, error) {
	return false, s.change(ctx, exchange.Session{}, queue, s.w.has(GrantInResize), func(q *rows.Queue) error {
		err := q.Resize(capacity)
		q.Resized = q.Resized && !s.w.has(Resize)
		return err
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
func (s *Store) Read(ctx context.Context, queue string, f exchange.Follower) (r exchange.Snapshot, err error) {
	if s.w.has(Read) {
		f = exchange.Follower{}
	}
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
	if s.w.has(Load) {
		f = exchange.Follower{}
	}
	return request(ctx, s, func(now time.Time) (driver.Cell, error) {
		c := s.w.cell(name, now).Load(f)
		c.Value = bytes.Clone(c.Value)
		return c, nil
	})
}

// Swap implements [exchange.Store].
func (s *Store) Swap(ctx context.Context, n driver.Swap) (driver.Cell, error) {
	n.Value = append([]byte{}, n.Value...)
	return request(ctx, s, func(now time.Time) (driver.Cell, error) {
		row := s.w.cell(n.Name, now)
		if s.w.has(OnlyOnce) {
			delete(row.Swaps, n.ID)
		}
		c, err := row.Swap(n)
		for _, ev := range row.Events {
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
			if len(expired(q)) > 0 {
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
	if s.w.has(Explain) {
		return driver.Permanent(err)
	}
	return err
}
