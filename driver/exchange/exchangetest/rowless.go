package exchangetest

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Rowless is one client of a world in which sessions have no rows. Each ticket has an end, which a
// heartbeat moves if it names the ticket. The world has no other clients than these.
type Rowless struct {
	exchange.Store // hides what is optional
	s              *Store
}

var _ exchange.Traited = (*Rowless)(nil)

// Rowless makes a client.
func (w *World) Rowless() *Rowless {
	s := w.Store()
	return &Rowless{s, s}
}

// Driver is the client of package exchange on a store, as [Store.Driver].
func (r *Rowless) Driver() *exchange.Driver {
	d := exchange.New(r, exchange.NewMailbox())
	d.SetClock(sinceEpoch)
	return d
}

// Traits implements [exchange.Traited].
func (r *Rowless) Traits() exchange.Traits {
	return exchange.Traits{Bounded: true, Listens: true, LookSettles: true}
}

// Begin implements [exchange.Store].
//
// What it notes never ends: it stands for the owner, TTL and mailbox in the row of each ticket.
func (r *Rowless) Begin(ctx context.Context, o exchange.Session) (exchange.Begun, error) {
	return request(ctx, r.s, func(now time.Time) (exchange.Begun, error) {
		r.s.w.sessions[o.ID] = &session{id: o.ID, owner: o.Owner, ttl: o.TTL, mailbox: o.Mailbox, end: now.Add(100 * 365 * 24 * time.Hour)}
		return exchange.Begun{}, nil
	})
}

// extend moves the end of a ticket.
func (t *ticket) extend(now time.Time) {
	if !t.fixed && !t.evicted {
		t.rowless, t.ends = true, now.Add(t.session.ttl)
	}
}

// Join implements [exchange.Store].
func (r *Rowless) Join(ctx context.Context, j exchange.Join) (exchange.Status, error) {
	sent := sinceEpoch()
	return request(ctx, r.s, func(now time.Time) (exchange.Status, error) {
		w := r.s.w
		if w.settle(w.queue(j.Queue), now) && j.NoWait {
			return exchange.Status{}, driver.ErrBusy
		}
		stood := w.tickets[j.ID] != nil
		st, err := w.join(j, now)
		if err != nil || stood && w.has(Sent) {
			return st, err
		}
		t := w.tickets[j.ID]
		t.extend(now)
		st = w.status(t, now)
		st.At, st.Sent = now, sent
		return st, nil
	})
}

// End implements [exchange.Store].
func (r *Rowless) End(ctx context.Context, _ exchange.Session, tickets []exchange.Leave) (queues []string, err error) {
	return request(ctx, r.s, func(now time.Time) (queues []string, err error) {
		w := r.s.w
		for _, l := range tickets {
			if w.has(Leavers) {
				break
			}
			if l.Tombstone > 0 {
				w.tombs[l.ID] = now.Add(l.Tombstone)
			}
			if t := w.find(l.Session.ID, l.Queue, l.ID, false, now); t != nil && !(l.Unfixed && t.fixed) {
				w.remove(t, false)
			}
			if !w.has(GrantInEnd) && w.settle(w.queue(l.Queue), now) {
				queues = append(queues, l.Queue)
			}
		}
		return queues, nil
	})
}

// Renew implements [exchange.Store].
func (r *Rowless) Renew(ctx context.Context, o exchange.Session, tickets []exchange.Ref, extend int) (exchange.Renewal, error) {
	all, err := r.look(ctx, o, tickets, extend)
	for i := range all {
		all[i].Stray = i >= extend && !all[i].Fixed
	}
	return exchange.Renewal{Tickets: all}, err
}

// Look implements [exchange.Store].
func (r *Rowless) Look(ctx context.Context, o exchange.Session, tickets []exchange.Ref) ([]exchange.Status, error) {
	return r.look(ctx, o, tickets, 0)
}

// look settles the queues of tickets, and extends the first of these.
func (r *Rowless) look(ctx context.Context, o exchange.Session, tickets []exchange.Ref, extend int) ([]exchange.Status, error) {
	sent := sinceEpoch()
	return request(ctx, r.s, func(now time.Time) (all []exchange.Status, err error) {
		w := r.s.w
		for i, ref := range tickets {
			unsettled := w.settle(w.queue(ref.Queue), now)
			if t := w.find(o.ID, ref.Queue, ref.ID, false, now); t != nil && (i < extend || w.has(Extend)) {
				t.extend(now)
			}
			st := w.look(o.ID, ref, now)
			st.At, st.Sent, st.Unsettled = now, sent, st.Unsettled || unsettled
			all = append(all, st)
		}
		return all, nil
	})
}
