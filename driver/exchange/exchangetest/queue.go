package exchangetest

import (
	"slices"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// batch bounds what one exchange takes out and grants.
const batch = 100

// near is how many waiters have an expiry timer: those in front of the others may all be dead.
const near = 100

// settle takes out tickets that have expired and grants the next waiters.
func (w *World) settle(q *queue, now time.Time) (unsettled bool) {
	left := batch
	for i := 0; i < len(q.tickets) && left > 0; {
		t := q.tickets[i]
		if t.end(w).After(now) {
			i++
			continue
		}
		left--
		if w.has(RemovedAtExpiry) {
			w.send(t.session.mailbox, exchange.Event{Type: exchange.Removed, ID: t.ID})
		}
		switch {
		case t.rowless: // no session keeps a late Join from making it again
			if !w.has(Expired) {
				w.tombs[t.ID] = now.Add(t.session.ttl)
			}
		case !t.fixed && !t.evicted && !t.stray && !w.has(OverIsOver):
			t.session.over = true
		}
		w.remove(t, t.kept)
	}
	if w.has(Prefix) {
		w.grantAnyone(q, now)
	}
	for ; left > 0 && q.granted < len(q.tickets); left-- {
		t := q.tickets[q.granted]
		if !t.end(w).After(now) {
			w.remove(t, true)
			continue
		}
		if t.Units > q.capacity-q.used {
			break
		}
		w.grant(t, now)
	}
	w.tell(q, now)
	return left == 0
}

// grant makes the first waiter a holder.
func (w *World) grant(t *ticket, now time.Time) {
	q := t.queue
	q.granted++
	q.used += t.Units
	t.held, t.token, t.inherited = true, w.token(q, now), q.unclean && t.Robust
	if t.Hold > 0 && !t.fixed {
		t.fixed, t.hold, t.ends = true, t.Hold, now.Add(t.Hold)
	}
	w.changed(q)
	if !w.has(Told) {
		w.send(t.session.mailbox, exchange.Event{Type: exchange.Granted, ID: t.ID, Status: w.status(t, now)})
	}
}

// grantAnyone is the fault Prefix: waiters pass one that does not fit.
func (w *World) grantAnyone(q *queue, now time.Time) {
	for i := q.granted; i < len(q.tickets); i++ {
		if t := q.tickets[i]; t.Units <= q.capacity-q.used {
			q.tickets = slices.Insert(slices.Delete(q.tickets, i, i+1), q.granted, t)
			w.grant(t, now)
		}
	}
}

// token is larger than all before. It follows the clock, so that nothing but the queue's last
// token has to be kept for ever.
func (w *World) token(q *queue, now time.Time) uint64 {
	if w.has(TokensGrow) {
		return uint64(len(q.tickets))
	}
	q.last = max(q.last+1, w.floor+1, uint64(now.UnixMicro()/10))
	return q.last
}

// tell sends the events of a queue that has waiters.
func (w *World) tell(q *queue, now time.Time) {
	if w.has(Told) {
		return
	}
	if q.granted == len(q.tickets) {
		q.told = min(q.told, q.granted)
		return
	}
	for ; q.told < q.granted; q.told++ {
		t := q.tickets[q.told]
		w.send(t.session.mailbox, exchange.Event{Type: exchange.Demanded, ID: t.ID, Demand: driver.Wanted})
	}
	first := q.tickets[q.granted]
	w.send(first.session.mailbox, exchange.Event{Type: exchange.FirstWaiter, ID: first.ID, Status: exchange.Status{Due: w.due(q, now)}})
}

// due is after what time a ticket in front of the waiters may expire.
func (w *World) due(q *queue, now time.Time) time.Duration {
	due := time.Minute
	for _, t := range q.tickets[:min(q.granted+1, len(q.tickets))] { // the first waiter is in front of others
		due = min(due, t.end(w).Sub(now))
	}
	return max(due, 1)
}

// exclusive: a ticket that is held, and no other beside it.
func (q *queue) exclusive(t *ticket) bool { return t.Units >= q.capacity && t.Units == q.used }

// remove takes a ticket out.
func (w *World) remove(t *ticket, clean bool) {
	q := t.queue
	i := slices.Index(q.tickets, t)
	q.tickets = slices.Delete(q.tickets, i, i+1)
	if t.held {
		q.granted--
		if q.exclusive(t) {
			q.unclean = !clean
		}
		q.used -= t.Units
	}
	if i < q.told {
		q.told--
	}
	delete(w.tickets, t.ID)
	w.changed(q)
}

// changed sends word to those that follow the queue.
func (w *World) changed(q *queue) {
	for mailbox := range q.follow {
		w.send(mailbox, exchange.Event{Type: exchange.QueueChanged, Queue: q.name})
	}
	clear(q.follow)
}

// status is what an exchange says of a ticket that stands.
func (w *World) status(t *ticket, now time.Time) exchange.Status {
	q := t.queue
	st := exchange.Status{State: exchange.Waiting, Revoked: t.revoked, Evicted: t.evicted, Stray: t.stray, Fixed: t.fixed}
	if t.fixed || t.evicted || t.stray {
		st.Left, st.Hold = t.ends.Sub(now), t.hold
	}
	if t.held {
		st.State, st.Token, st.Inherited, st.Wanted = exchange.Held, t.token, t.inherited, q.granted < len(q.tickets)
		return st
	}
	if ahead := slices.Index(q.tickets, t) - q.granted; ahead < near {
		st.Due, st.Ahead = w.due(q, now), ahead
		st.Unsettled = st.Due <= 1 || ahead == 0 && t.Units <= q.capacity-q.used
	}
	return st
}

// look is what an exchange says of a ticket.
func (w *World) look(session string, ref exchange.Ref, now time.Time) exchange.Status {
	if t := w.find(session, ref.Queue, ref.ID, true, now); t != nil {
		return w.status(t, now)
	}
	return exchange.Status{}
}

// snapshot is a queue without the tickets that have expired.
func (w *World) snapshot(q *queue, now time.Time) exchange.Snapshot {
	s := exchange.Snapshot{Queue: driver.Queue{Name: q.name, Kind: q.kind, Capacity: q.capacity, Resized: q.resized}, At: now}
	for _, t := range q.tickets {
		end := t.end(w)
		if !end.After(now) {
			continue
		}
		s.Members = append(s.Members, driver.Member{
			ID: t.ID, Owner: t.owner, Note: slices.Clone(t.Note), Units: t.Units, Held: t.held, Token: t.token, Since: t.since, Left: end.Sub(now), Fixed: t.fixed,
		})
	}
	return s
}
