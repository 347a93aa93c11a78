package zklock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Renew asks the leader, for a follower that has lost it answers everything else by itself, while the leader lets the
// session expire. What it proves is an earlier exchange: see package internal/zk. What became of the tickets is known
// without a question: their nodes stand as long as the session, unless they are removed, and that is watched.
func (s *store) Renew(ctx context.Context, row exchange.Session, refs []exchange.Ref, _ int) (r exchange.Renewal, err error) {
	err = s.in(ctx, row.ID, func(ctx context.Context, o *session) error {
		r.Tickets, err = o.renew(ctx, refs)
		return err
	})
	return r, err
}

func (s *session) renew(ctx context.Context, refs []exchange.Ref) ([]exchange.Status, error) {
	now := driver.Now()
	if s.l.Own {
		answered := make(chan struct{})
		defer close(answered)
		go s.l.DropIfSilent(s.ttl/4, answered)
	}
	s.mu.Lock()
	s.renewed = now
	s.renewing++
	seeks := now.Sub(s.sought) >= s.ttl
	if seeks {
		s.sought = now
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.renewing--
	}()
	if err := s.l.Sync(ctx, s.store.top()); err != nil {
		return nil, err
	}
	s.readInbox(ctx) // all that was put there before the sync has been announced
	if seeks {
		s.background(s.removeGhosts)
	}
	found := make([]exchange.Status, len(refs))
	var fixed []int // others may change them
	s.mu.Lock()
	for i, ref := range refs {
		t := s.entries[ref.ID]
		switch {
		case t == nil && s.buried.Has(ref.ID):
		case t == nil || t.q.name != ref.Queue || t.fixed:
			fixed = append(fixed, i)
		case t.state == exchange.Gone: // its Join has no answer
			found[i].State = exchange.NotAsked
		default:
			found[i] = t.statusNow()
			if t.state == exchange.Waiting && t.waitNow() == nil && !t.j.NoWait {
				s.background(func(context.Context) { t.mayHold() })
			}
			if t.j.Hold > 0 { // it may have got its end, and been removed, by an exchange whose answer is under way
				fixed = append(fixed, i)
			}
		}
	}
	s.mu.Unlock()
	if err := s.others(ctx, refs, fixed, found); err != nil {
		return nil, err
	}
	return found, nil
}

// others finds out what became of tickets with a fixed end, also of other sessions. It fails if it has an answer
// about none.
func (s *session) others(ctx context.Context, refs []exchange.Ref, of []int, found []exchange.Status) (failed error) {
	lines := map[string]*listing{}
	for _, i := range of {
		err := anew(func() (err error) {
			if lines[refs[i].Queue] == nil {
				if lines[refs[i].Queue], err = s.store.readAny(ctx, s.l, s.store.queue(refs[i].Queue)); err != nil {
					return err
				}
			}
			if found[i], err = s.other(ctx, refs[i], lines[refs[i].Queue]); errors.Is(err, errStale) {
				delete(lines, refs[i].Queue)
			}
			return err
		})
		if err != nil {
			found[i], failed = exchange.Status{State: exchange.NotAsked}, err
		}
	}
	if slices.ContainsFunc(found, func(st exchange.Status) bool { return st.State != exchange.NotAsked }) {
		return nil
	}
	return failed
}

// other sees from a list what became of one of these.
func (s *session) other(ctx context.Context, ref exchange.Ref, f *listing) (st exchange.Status, err error) {
	key, ok := f.Find(ref.ID)
	t := s.entry(ref.ID)
	own := t != nil && t.q.name == ref.Queue
	switch {
	case !ok && own:
		t.forgotten()
	case ok && own:
		s.mu.Lock()
		t.key = key
		s.mu.Unlock()
		return t.status(ctx, f.wanted(key))
	case ok && key.until != 0:
		c, err := s.l.Get(ctx, s.store.node(ref.Queue)+"/"+key.node)
		if err != nil {
			return st, stale(err)
		}
		now, sent, _, err := s.store.clock(ctx, s.l)
		if err != nil {
			return st, err
		}
		m, _ := decode(c.Data)
		return exchange.Status{State: exchange.Held, Fixed: true, Left: key.left(now), Hold: m.Fixed, Evicted: key.evicted, Sent: sent}, nil
	}
	return st, nil
}

func (f *listing) wanted(t *ticket) bool {
	p := f.Place(t)
	return p.Wanted
}

// Look lists the queues of tickets, and has what keeps waiters out watched.
func (s *store) Look(ctx context.Context, row exchange.Session, refs []exchange.Ref) ([]exchange.Status, error) {
	found, errs := make([]exchange.Status, len(refs)), make([]error, len(refs))
	err := s.in(ctx, row.ID, func(ctx context.Context, o *session) error {
		several(len(refs), zk.CrowdSlots, func(i int) {
			if found[i], errs[i] = o.lookAt(ctx, refs[i]); errs[i] != nil {
				found[i].State = exchange.NotAsked
			}
		})
		if slices.Contains(errs, nil) {
			return nil
		}
		return cmp.Or(errs...)
	})
	return found, err
}

func (s *session) lookAt(ctx context.Context, ref exchange.Ref) (st exchange.Status, err error) {
	t := s.entry(ref.ID)
	if t == nil || t.q.name != ref.Queue {
		found := make([]exchange.Status, 1)
		if s.has(&s.buried, ref.ID) {
			return st, nil
		}
		err := s.others(ctx, []exchange.Ref{ref}, []int{0}, found)
		return found[0], err
	}
	if err := t.turn.Take(ctx); err != nil {
		return st, err
	}
	defer t.turn.Give()
	if found, err := t.find(ctx); err != nil || !found {
		return st, err
	}
	s.mu.Lock()
	quiet := t.waitNow() != nil // else a server that lags behind tells when it has caught up
	s.mu.Unlock()
	if quiet {
		if err := s.l.CatchUp(ctx, t.q.path); err != nil {
			return st, err
		}
	}
	st, err = t.recipe.look(ctx)
	if errors.Is(err, driver.ErrMismatch) { // the ticket was refused, and is gone
		return exchange.Status{}, nil
	}
	if err != nil && s.store.lasts(err) {
		t.withdraw(ctx)
	}
	return st, err
}

// Detach gives strays the end that they have. They stand as long as the session, so that this client has to remove
// them; no exchange is needed for that.
func (s *store) Detach(_ context.Context, row exchange.Session, refs []exchange.Ref) error {
	return s.eachEntry(row, refs, func(t *entry) {
		if !t.stray && !t.evicted && !t.fixed {
			t.stray = true
			t.endsAt(t.s.renewed.Add(t.s.ttl))
		}
	})
}

// Attach undoes that for strays that have not expired.
func (s *store) Attach(_ context.Context, row exchange.Session, refs []exchange.Ref) error {
	return s.eachEntry(row, refs, func(t *entry) {
		if t.stray && driver.Now() < t.end {
			t.stray = false
			if t.ends != nil && !t.evicted && !t.fixed {
				t.ends.Stop()
			}
		}
	})
}

// eachEntry calls f for the tickets that the session has, with its mutex held.
func (s *store) eachEntry(row exchange.Session, refs []exchange.Ref, f func(*entry)) error {
	o, err := s.live(row.ID)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, ref := range refs {
		if t := o.entries[ref.ID]; t != nil && t.q.name == ref.Queue {
			f(t)
		}
	}
	return nil
}

// Tickets is never called: an ensemble has one history.
func (s *store) Tickets(context.Context, exchange.Session) ([]exchange.Ref, error) { return nil, nil }

// Listen passes events on, which come over the connections of the sessions. One that ends is made again, and what was
// missed meanwhile is looked for then.
func (s *store) Listen(ctx context.Context, _ string, up func(), receive func(exchange.Event)) error {
	s.mu.Lock()
	s.receive = receive
	s.mu.Unlock()
	up()
	select {
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	s.mu.Lock()
	s.receive = nil
	s.mu.Unlock()
	return context.Canceled
}

// Clock is never called: RaiseAll raises all tokens.
func (s *store) Clock(context.Context) (int64, error) { return time.Now().UnixMicro(), nil }
