package zklock

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// revocation is what Curator writes into the node of a ticket to have it given up.
const revocation = "__REVOKE__"

func revoked(data []byte) bool {
	m, _ := decode(data)
	return m.Revoked || string(data) == revocation
}

// watchHolder watches a ticket that has been held for some time: its node may be removed, or, as Curator does
// it, be asked for by its data; and others may come to wait behind it.
func (s *session) watchHolder(ctx context.Context, t *entry) {
	s.mu.Lock()
	key, own, wanted := t.key, t.own, t.wanted
	if t.state != exchange.Held {
		s.mu.Unlock()
		return
	}
	path, crowd := t.recipe.watched()
	s.mu.Unlock()
	if !own.Live() {
		on := s.l.Watch(path, false, func() { s.background(func(ctx context.Context) { s.watchHolder(ctx, t) }) })
		c, err := s.l.See(ctx, path)
		s.mu.Lock()
		switch {
		case err != nil || t.key != key || t.ended:
			s.l.Ignore(on)
		default:
			t.own = on
		}
		s.mu.Unlock()
		switch {
		case errors.Is(err, zk.ErrNoNode): // perhaps it has another one
			s.store.tell(exchange.Event{Type: exchange.Demanded, ID: t.j.ID, Unverified: true})
			return
		case err != nil:
			s.watchHolderLater(t)
			return
		case revoked(c.Data):
			t.demanded(driver.Revoke)
		}
	}
	if !wanted && crowd != nil {
		s.watchWaiters(ctx, t, crowd)
	}
}

// watchHolderLater tries again, unless the connection has ended: then that is done when it is there again.
func (s *session) watchHolderLater(t *entry) {
	if now, _ := s.l.State(); now == s.zk && !s.isOver() {
		time.AfterFunc(again, func() { s.background(func(ctx context.Context) { s.watchHolder(ctx, t) }) })
	}
}

// watchWaiters watches the queue of a ticket that is held until others wait behind it.
func (s *session) watchWaiters(ctx context.Context, t *entry, q *queue) {
	s.mu.Lock()
	if s.crowds[q.name].Live() {
		s.mu.Unlock()
		return
	}
	on := s.l.Watch(q.path, true, func() { s.background(func(ctx context.Context) { s.queueChanged(ctx, q) }) })
	s.crowds[q.name] = on
	s.mu.Unlock()
	asked := driver.Now()
	f, err := s.store.list(ctx, s.l, q, true)
	if err != nil {
		s.mu.Lock()
		s.l.Ignore(on)
		if s.crowds[q.name] == on {
			delete(s.crowds, q.name)
		}
		s.mu.Unlock()
		if !errors.Is(err, zk.ErrNoNode) {
			s.watchHolderLater(t)
		}
		return
	}
	var told []*entry
	s.mu.Lock()
	for _, key := range f.Keys {
		t := s.entries[key.ID]
		if t == nil || t.q.name != q.name || t.state != exchange.Held {
			continue
		}
		if t.mark.version == anyVersion && t.since <= asked { // others were granted by a later one
			t.mark.version = version(f.Stat.Version)
		}
		if p := f.Place(key); p.Wanted && !t.wanted {
			t.wanted = true
			told = append(told, t)
		}
	}
	s.mu.Unlock()
	for _, t := range told {
		s.store.tell(exchange.Event{Type: exchange.Demanded, ID: t.j.ID, Demand: driver.Wanted})
	}
}

// queueChanged is called when the queue has changed.
func (s *session) queueChanged(ctx context.Context, q *queue) {
	s.mu.Lock()
	var some *entry
	for _, t := range s.entries {
		if t.q.name == q.name && t.state == exchange.Held && !t.wanted && driver.Now().Sub(t.since) >= settledAfter {
			some = t
			break
		}
	}
	if some == nil {
		delete(s.crowds, q.name)
	}
	s.mu.Unlock()
	if some != nil {
		s.watchWaiters(ctx, some, q)
	}
}

// demanded passes a demand on.
func (t *entry) demanded(what driver.Demand) {
	s := t.s
	ev := exchange.Event{Type: exchange.Demanded, ID: t.j.ID, Demand: what}
	s.mu.Lock()
	switch what {
	case driver.Force:
		ev = exchange.Event{Type: exchange.Removed, ID: t.j.ID}
		t.forget()
	case driver.Evict:
		switch {
		case t.fixed: // since the demand was put there
			s.background(t.evict)
		case !t.evicted:
			t.evicted = true
			t.endsAt(s.renewed.Add(s.ttl))
		}
	case driver.Revoke:
		t.revoked = true
	}
	s.mu.Unlock()
	s.store.tell(ev)
}

// endsAt gives the ticket its own end; s.mu is held.
func (t *entry) endsAt(end driver.Instant) {
	t.end = end
	if t.ends != nil {
		t.ends.Stop()
	}
	t.ends = time.AfterFunc(max(0, end.Sub(driver.Now())), func() { t.inTurn(t.expire) })
}

// expire removes the node that a ticket is known by, since its own end has come, and no other: one that has taken its
// place meanwhile may have another end.
func (t *entry) expire(ctx context.Context) {
	s := t.s
	now := t.now()
	if now.ended || !(now.fixed || now.evicted || now.stray) || driver.Now() < now.end {
		return
	}
	err := t.recipe.removeExpired(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil || errors.Is(err, driver.ErrGone):
		t.forget()
		s.background(func(context.Context) { t.mayHold() }) // Await is told that it is gone
	case errors.Is(err, errProlonged):
	default: // it is over all the same, and that is tried again
		t.ends.Reset(max(s.ttl/20, settledAfter))
	}
}

var errProlonged = errors.New("zookeeper: the ticket has another end by now")

// removeExpired is expire for a node.
func (t *entry) removeExpired(ctx context.Context) error {
	s, now := t.s, t.now()
	return t.removeNode(ctx, s.l, now.key, func(key *ticket) error {
		if key.until != 0 {
			time, _, _, err := s.store.clock(ctx, s.l)
			if err != nil {
				return err
			}
			if key.left(time) > 0 { // another client has given it that
				s.mu.Lock()
				t.key = key
				s.mu.Unlock()
				return cmp.Or(t.isFixed(ctx, false), errProlonged)
			}
		}
		return s.store.take(ctx, s.l, t.q, key, now.mark.when(key.kept))
	})
}

// removeGhosts is called once in a TTL: servers with the faults that Check warns of bring nodes of tickets back after
// leaders have crashed. They would stand as long as the session of their client, and all others wait behind them. It
// asks the server which nodes the session has, and removes the nodes of tickets that no session on this connection
// knows. A ticket is known before its node is made, and until that is removed.
func (s *session) removeGhosts(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.ttl/4)
	defer cancel()
	paths, err := s.l.Ephemerals(ctx, s.store.root)
	if err != nil {
		return
	}
	for _, path := range paths {
		if id := s.ticketAt(path); id != "" && !s.l.Knows(id) {
			_ = s.l.Remove(ctx, path)
		}
	}
}

// ticketAt returns the ID of a ticket of ours whose node this is, "" if there is none. A
// program's own session may have nodes of other libraries.
func (s *session) ticketAt(path string) string {
	if len(path) <= len(s.store.root)+1 || path[:len(s.store.root)+1] != s.store.root+"/" {
		return ""
	}
	t, ok := parse(base(path))
	if id := s.store.layouts.Ghost(base(path)); id != "" {
		return id
	}
	if !ok || t.Foreign || base(path)[:3] != "_c_" || !s.l.Own && t.Kind == driver.RWMutex {
		return ""
	}
	return t.ID
}
