package zklock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/keys"
	"github.com/interlock-go/interlock/internal/recent"
)

// Join makes the node of a ticket and, in the same round trip, looks whether others are there.
func (s *store) Join(ctx context.Context, j exchange.Join) (st exchange.Status, err error) {
	err = s.in(ctx, j.Session.ID, func(ctx context.Context, o *session) error {
		st, err = o.join(ctx, s.lineOf(j.Queue, j.Kind), &j)
		return o.joined(j.ID, st, err)
	})
	return st, err
}

// joined is the error of a Join.
func (s *session) joined(id string, st exchange.Status, err error) error {
	if err == nil && st.State == exchange.Gone {
		err = driver.ErrGone
	}
	switch {
	case errors.Is(err, driver.ErrGone) && s.has(&s.refused, id):
		err = driver.ErrMismatch
	case err == nil && s.isOver():
		err = driver.ErrSession
	}
	return err
}

func (s *session) join(ctx context.Context, q *queue, j *exchange.Join) (st exchange.Status, err error) {
	if err := s.store.checkShape(j); err != nil {
		return st, err
	}
	if s.has(&s.buried, j.ID) {
		return st, driver.ErrGone
	}
	give := func() {}
	if s.entry(j.ID) == nil {
		if give, err = s.l.Slot(ctx, zk.Coming); err != nil {
			return st, exchange.NotSent(err)
		}
	}
	t, fresh, err := s.entryOf(q, j)
	defer func() { go t.givesBack(give) }()
	if err != nil {
		return st, err
	}
	if err := t.turn.Take(ctx); err != nil { // two calls with one ID
		return st, err
	}
	defer t.turn.Give()
	if fresh && j.NoWait {
		if err := certain(ctx, s.l, q, func() error { return t.recipe.precheck(ctx) }); err != nil {
			s.discard(t)
			return st, err
		}
	}
	if !fresh || j.Retry {
		switch found, err := t.find(ctx); {
		case err != nil:
			return st, err
		case found:
			return t.recipe.look(ctx)
		}
	}
	st, err = t.recipe.enter(ctx)
	if err != nil && s.store.lasts(err) {
		t.withdraw(ctx)
	}
	return st, err
}

// entryOf finds or makes the entry of a ticket.
func (s *session) entryOf(q *queue, j *exchange.Join) (t *entry, fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.buried.Has(j.ID) {
		return nil, false, driver.ErrGone
	}
	if t = s.entries[j.ID]; t != nil {
		return t, false, nil
	}
	if err := s.burden(q, j); err != nil {
		return nil, false, err
	}
	t = &entry{s: s, q: q, j: *j, turn: zk.NewTurn(), known: known{mark: mark{version: anyVersion}}}
	t.recipe = s.store.recipeOf(t)
	s.entries[j.ID] = t
	return t, true, nil
}

// discard is called when no node of the ticket stands, or will. It may be joined again.
func (s *session) discard(t *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !t.ended {
		t.drop()
	}
}

// givesBack gives the slot of a Join back, once no request to make a node is under way any more. There may be no entry.
func (t *entry) givesBack(give func()) {
	if t != nil {
		_ = t.settle(context.Background())
	}
	give()
}

func (s *session) has(ids *recent.IDs, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ids.Has(id)
}

// isOld: its node was made.
func (t *entry) isOld() bool { return t.now().key != nil }

// settle waits until no request to make the node is under way.
func (t *entry) settle(ctx context.Context) error {
	flight := t.now().flight
	if flight == nil {
		return nil
	}
	select {
	case <-flight:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// precheck spares a ticket that must not wait the writes, if others stand.
func (t *entry) precheck(ctx context.Context) error {
	s := t.s
	f, err := s.store.readAny(ctx, s.l, t.q)
	if err == nil {
		err = s.store.legible(t.q, &f.number)
	}
	if err != nil {
		return err
	}
	wish := s.store.ticketOf(&t.j)
	wish.Order = math.MaxInt64
	v := f.Agree(wish)
	if v.Refused {
		return driver.ErrMismatch
	}
	f.Keys = slices.DeleteFunc(f.Keys, func(o *ticket) bool { return slices.Contains(v.Expel, o) })
	if p := f.Place(wish); !p.Held {
		return driver.ErrBusy
	}
	return nil
}

// certain repeats a look that was refused once the server has caught up: it may have
// shown an older state than other clients have seen.
func certain(ctx context.Context, l *link, q *queue, look func() error) error {
	err := look()
	if errors.Is(err, driver.ErrGone) || errors.Is(err, driver.ErrBusy) || errors.Is(err, driver.ErrMismatch) {
		if err := l.CatchUp(ctx, q.path); err != nil {
			return err
		}
		return look()
	}
	return err
}

// enter makes the node, and looks.
func (t *entry) enter(ctx context.Context) (st exchange.Status, err error) {
	// The mark, which a ticket with ReportDeath wants to read, must not go with the queue's node.
	err = t.s.store.laid(ctx, t.s.l, t.q.path, !t.j.ReportDeath, func() error {
		st, err = t.create(ctx)
		return err
	})
	if err != nil && sure(err) && !t.isOld() {
		t.s.discard(t)
	}
	return st, err
}

// sure reports whether an error means that nothing was done.
func sure(err error) bool {
	return errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zk.ErrInvalidACL) ||
		errors.Is(err, zk.ErrBadArguments) || errors.Is(err, zk.ErrAuthFailed)
}

// create makes the node and, in the same round trip, looks whether any other ticket is there.
func (t *entry) create(ctx context.Context) (st exchange.Status, err error) {
	s := t.s
	var lists []string
	if !t.q.crowded() { // else the list is looked at once the node is there
		lists = []string{t.q.path}
	}
	if err := ctx.Err(); err != nil {
		return st, err
	}
	op, made := t.making()
	listed, err := s.l.Change(ctx, s.zk, []any{op}, lists, func(m zk.Made, err error) error { return made(m, 0, err) })
	switch {
	case err != nil:
		return st, err
	case len(listed) == 0:
		return t.look(ctx)
	}
	c, err := listed[0](ctx)
	return t.arrived(ctx, c, err)
}

// making is what makes the node, and what notes the answer, which is at this place of its transaction.
func (t *entry) making() (op *zk.Create, made func(m zk.Made, at int, err error) error) {
	s := t.s
	flight := make(chan struct{})
	s.mu.Lock()
	t.flight = flight
	s.mu.Unlock()
	stem := t.q.path + "/" + s.store.ticketOf(&t.j).stem()
	return &zk.Create{Path: stem, Data: t.meta().encode(), Acl: s.store.acl, Flags: zk.EphemeralSequential}, func(m zk.Made, at int, err error) error {
		defer close(flight)
		if err == nil {
			err = t.made(m.Results[at].Path, m.Zxid)
		}
		return err
	}
}

// arrived sees from the list that came with its node how the ticket stands.
func (t *entry) arrived(ctx context.Context, c zk.Children, err error) (st exchange.Status, _ error) {
	if err == nil {
		f := listingOf(t.q, c)
		if err = t.s.store.settle(ctx, t.s.l, t.q, f); err == nil {
			st, err = t.statusIn(ctx, f)
		}
		if err == nil || !errors.Is(err, errStale) {
			return st, err
		}
	}
	return t.look(ctx)
}

// made notes the node that was created, perhaps when no caller waits for it any
// more.
func (t *entry) made(path string, zxid int64) error {
	s := t.s
	key, ok := parse(base(path))
	if !ok {
		return driver.Permanent(fmt.Errorf("zookeeper: the node %s is none of a ticket", path))
	}
	err := t.stands(key, uint64(zxid))
	if number(key.Order) == math.MaxInt32 {
		err = errNumbers
	}
	if err != nil || t.now().ended || s.isOver() {
		s.remove(path)
	}
	t.q.mu.Lock()
	defer t.q.mu.Unlock()
	t.q.stands = true
	return err
}

// remove removes a node that no caller waits for, sooner or later, unless it goes with its session.
func (s *session) remove(path string) {
	task := func(ctx context.Context) {
		retry(ctx, s.ttl/8, func() error {
			err := zk.Unless(s.l.Remove(ctx, path), zk.ErrNoNode)
			if s.l.Own && s.isOver() {
				err = nil
			}
			return err
		})
		if t, ok := parse(base(path)); ok && number(t.Order) == math.MaxInt32 {
			if errors.Is(s.l.Remove(ctx, parent(path)), zk.ErrNotEmpty) { // of tickets, or of a number of permits
				_ = s.store.renumber(ctx, s.l, parent(path))
			}
		}
	}
	if s.l.Own {
		s.store.background(task)
	} else {
		s.clear(task)
	}
}

// stands notes the node of the ticket.
func (t *entry) stands(key *ticket, zxid uint64) error {
	if zxid == 0 || zxid >= driver.MaxToken {
		return driver.Permanent(fmt.Errorf("zookeeper: the transaction %d is no token: the ensemble has elected too many leaders", zxid))
	}
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if t.key == nil {
		t.key, t.zxid, t.state = key, zxid, exchange.Waiting
	}
	return nil
}

// ZooKeeper gives the last number again and again, until the node that counts is
// made anew.
var errNumbers = errors.New("zookeeper: the sequence numbers of the queue are used up; they begin again once it has been empty")

// locate finds the node of the ticket, nil if there is none. Making it may still be
// under way: it is before the transaction that this begins with, or was refused.
func (t *entry) locate(ctx context.Context, l *link) (*ticket, error) {
	if err := l.CatchUp(ctx, t.q.path); err != nil {
		return nil, err
	}
	f, err := t.s.store.list(ctx, l, t.q, false)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	key, _ := f.Find(t.j.ID)
	return key, nil
}

// find looks for the node of the ticket, unless it is known that it was made.
func (t *entry) find(ctx context.Context) (found bool, err error) {
	err = t.settle(ctx)
	if found = t.isOld(); !found && err == nil {
		err = anew(func() (err error) { found, err = t.findNode(ctx); return err })
	}
	return found, err
}

// findNode looks for a ticket whose creation had no answer. One of an earlier
// session of ours is about to go away, and is not this one.
func (t *entry) findNode(ctx context.Context) (bool, error) {
	s := t.s
	key, err := t.locate(ctx, s.l)
	if key == nil || err != nil {
		return false, err
	}
	path := t.q.path + "/" + key.node
	c, err := s.l.Get(ctx, path)
	if err != nil {
		return false, stale(err)
	}
	if c.Stat.EphemeralOwner != s.zk && key.until == 0 {
		if err := s.l.Remove(ctx, path); err != nil {
			return false, stale(err)
		}
		return false, nil
	}
	if err := t.stands(key, joined(c)); err != nil {
		return false, err
	}
	if m, ok := decode(c.Data); ok {
		s.mu.Lock()
		t.token = m.Token
		s.mu.Unlock()
	}
	return true, nil
}

// look lists the queue and sees how the ticket stands. It is the turn of the caller.
func (t *entry) look(ctx context.Context) (st exchange.Status, err error) {
	s := t.s
	for {
		now := t.now()
		f, err := s.list(t.q, now.front < nearFront && now.wait != nil).wait(ctx)
		if errors.Is(err, zk.ErrNoNode) {
			t.forgotten()
			return st, nil
		}
		if err != nil {
			return st, err
		}
		if st, err = t.statusIn(ctx, f); !errors.Is(err, errStale) {
			return st, err
		}
	}
}

// statusIn sees from a list how the ticket stands. Gone: it does not.
func (t *entry) statusIn(ctx context.Context, f *listing) (st exchange.Status, err error) {
	s := t.s
	key, ok := f.Find(t.j.ID)
	s.mu.Lock()
	if !ok {
		defer s.mu.Unlock()
		if t.key != nil && !t.key.in(f.Stat) && uint64(f.Stat.Czxid) < t.zxid {
			return st, errStale
		}
		if t.state == exchange.Waiting && !t.agreed && !f.suits(t.key) {
			s.refused.Add(t.j.ID) // one of them has expelled it
		}
		t.forget()
		return st, nil
	}
	p := f.Place(key)
	if t.key != nil && t.key.node != key.node { // one with a fixed end may have got another
		t.resettle()
	}
	t.key = key
	t.front = len(p.Before)
	held := t.state == exchange.Held
	s.mu.Unlock()
	t.q.mu.Lock()
	t.q.front = len(p.Before)
	t.q.mu.Unlock()
	if f.Stat.DataLength == 0 {
		t.q.learn(nil)
	}
	if held {
		return t.status(ctx, p.Wanted)
	}
	if err := s.store.legible(t.q, &f.number); err != nil {
		return st, err
	}
	if err := t.agree(ctx, f); err != nil {
		return st, err
	}
	if !p.Held && key.Kind == driver.Semaphore && key.Units > f.Capacity(key) {
		return st, t.refuse(ctx, nil) // it waits for more than there is by now
	}
	s.mu.Lock()
	keys.Sees(&t.heir, &p)
	reads := t.j.ReportDeath && (p.Held || !t.heir.Based)
	s.mu.Unlock()
	if reads {
		c, err := s.l.Get(ctx, t.q.path)
		if err != nil {
			return st, err
		}
		mark, _, _ := t.q.learn(c.Data)
		gaps := int64(0)
		if f.late(key) && mark < f.number.Set {
			gaps = 2 // the number and the bell
		}
		s.mu.Lock()
		t.inherited = keys.Inherits(&t.heir, &p, mark, gaps)
		s.mu.Unlock()
	}
	if !p.Held {
		return t.waits(ctx, f, &p)
	}
	s.mu.Lock()
	t.mark = markOf(&p, version(f.Stat.Version))
	s.mu.Unlock()
	return t.recipe.grant(ctx, p.Wanted)
}

// suits: no ticket of the line is of another kind or number than this one.
func (f *listing) suits(t *ticket) bool {
	after := *t
	after.Order = math.MaxInt64
	return !f.Agree(&after).Refused && !f.Intrudes(&after)
}

// agree makes sure, once, that no ticket in front is of another kind or capacity,
// and then none ever will be. The queue belongs to the first comers: the ticket is refused,
// unless the other one is to be refused itself. That one may be about to leave, or its client
// does not know of it: it is expelled, by a transaction that finds the one in front of it
// still there. So it was never granted, for it has not been agreed with.
func (t *entry) agree(ctx context.Context, f *listing) error {
	if t.now().agreed {
		return nil
	}
	v := f.Agree(t.key)
	switch {
	case v.Refused && v.By == nil:
		return t.refuse(ctx, fmt.Errorf("%w: the number of permits was set to %d", driver.ErrMismatch, f.number.Permits))
	case v.Refused:
		because, err := t.recipe.intrudes(ctx, v.By)
		switch {
		case err != nil:
			return err
		case because == "":
			return t.refuse(ctx, fmt.Errorf("%w: the ticket %s is in front", driver.ErrMismatch, v.By.node))
		}
		return t.expel(ctx, &zk.Check{Path: because, Version: -1}, &zk.Delete{Path: t.q.path + "/" + v.By.node, Version: -1})
	case len(v.Expel) > 0:
		o := v.Expel[0]
		return t.expel(ctx, append(f.expulsion(t.q, o, v.By), f.unchanged(t.q, o)...)...)
	}
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	t.agreed = true
	return nil
}

// expel removes an intruder. It is errStale if the list is to be read again.
func (t *entry) expel(ctx context.Context, ops ...any) error {
	_, err := t.s.l.Multi(ctx, ops...)
	if err == nil || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNodeExists) {
		err = errStale
	}
	return err
}

// refuse removes a ticket that does not fit into its queue, and returns why. If the answer to that is lost, a
// Join that is repeated is told so all the same.
func (t *entry) refuse(ctx context.Context, why error) error {
	t.s.mu.Lock()
	t.s.refused.Add(t.j.ID)
	t.s.mu.Unlock()
	if err := zk.Unless(t.recipe.quit(ctx, false), driver.ErrGone); err != nil {
		return err
	}
	return why
}

// withdraw removes a ticket where a look at its queue is refused, for good: no caller asks about it again. It is gone
// before the next one comes, unless that fails.
func (t *entry) withdraw(ctx context.Context) {
	quit := func(ctx context.Context) error { return zk.Unless(t.recipe.quit(ctx, false), driver.ErrGone) }
	if t.isOld() && quit(ctx) != nil {
		t.s.background(func(ctx context.Context) {
			retry(ctx, t.s.ttl/8, func() error { return quit(ctx) })
		})
	}
}
