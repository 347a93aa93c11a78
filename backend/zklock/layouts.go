package zklock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/curator"
	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/keys"
)

// recipe is how a ticket is joined, granted and left. An entry is its own recipe: a line. In the layouts of Curator, see
// package curator, some steps differ. This file has all that depends on which of them it is.
type recipe interface {
	precheck(ctx context.Context) error
	enter(ctx context.Context) (exchange.Status, error)
	look(ctx context.Context) (exchange.Status, error)
	grant(ctx context.Context, wanted bool) (exchange.Status, error) // it is first in its line
	quit(ctx context.Context, clean bool) error
	shrink(ctx context.Context, units int64) error
	keep(ctx context.Context, d time.Duration) error
	removeExpired(ctx context.Context) error
	// watched is the node of a holder that is watched, and the queue where others would wait for it; nil: none would.
	// s.mu is held.
	watched() (node string, crowd *queue)
	abandon(ctx context.Context, l *link) error
	// intrudes is the node because of which a ticket in front is to be refused; "": it is not.
	intrudes(ctx context.Context, o *ticket) (because string, err error)
	alone() bool // it cannot leave together with others; s.mu is held
	dropped()    // the entry is no more; s.mu is held
}

func (t *entry) watched() (string, *queue) { return t.path(), t.q }
func (t *entry) alone() bool               { return false }
func (t *entry) dropped()                  {}

func (t *entry) intrudes(context.Context, *ticket) (string, error) { return "", nil }

// recipeOf chooses the recipe of a new ticket.
func (s *store) recipeOf(t *entry) recipe {
	e := &curatorTicket{t, make(chan struct{})}
	switch {
	case s.lends(t.j.Kind):
		return &semaphoreRecipe{curatorTicket: e, leases: s.layouts.Leases(e)}
	case t.j.Kind == driver.Barrier && s.barriers:
		return &barrierRecipe{curatorTicket: e, member: s.layouts.Member(e)}
	}
	return t
}

// lends: tickets of this kind wait for leases.
func (c *config) lends(kind driver.Kind) bool { return kind == driver.Semaphore && c.semaphores }

// lineOf is the line in which tickets of this kind stand.
func (s *store) lineOf(name string, kind driver.Kind) *queue {
	q := s.queue(name)
	if !s.lends(kind) {
		return q
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.locks == nil {
		q.locks = &queue{name: name, path: q.path + curator.Locks, parse: parseLine, listings: map[*session]*listings{}}
		q.locks.leases = &queue{name: name, path: q.path + curator.LeasesFolder, parse: parseLeases}
	}
	return q.locks
}

// curatorTicket is what package curator needs of an entry.
type curatorTicket struct {
	*entry
	held chan struct{} // closed with the grant
}

func (e *curatorTicket) Join() *exchange.Join              { return &e.j }
func (e *curatorTicket) Link() *zk.Link                    { return e.s.l.Link }
func (e *curatorTicket) Session() (int64, context.Context) { return e.s.zk, e.s.ctx }
func (e *curatorTicket) Held() bool                        { return e.now().state == exchange.Held }

func (e *curatorTicket) Data(lease bool) []byte {
	m := e.meta()
	if lease {
		e.s.mu.Lock()
		defer e.s.mu.Unlock()
		m.Joined, m.Lent = e.began, e.zxid
	}
	return m.encode()
}

func (e *curatorTicket) Wake() { e.s.background(e.wake) }

func (e *curatorTicket) wake(ctx context.Context) {
	if e.turn.Take(ctx) != nil {
		return
	}
	was := e.now().state
	st, err := e.recipe.look(ctx)
	e.turn.Give()
	now, _ := e.s.l.State()
	switch {
	case ctx.Err() != nil, err != nil && now != e.s.zk: // it is looked at when the connection is there again
	case err != nil && !e.s.store.lasts(err):
		time.AfterFunc(again, e.Wake)
	case was == exchange.Waiting && st.State == exchange.Held:
		e.s.store.tell(exchange.Event{Type: exchange.Granted, ID: e.j.ID, Status: st})
	case err != nil, st.State == exchange.Gone:
		e.mayHold()
	}
}

// ends forgets a ticket that was found to be gone, or has left.
func (e *curatorTicket) ends() exchange.Status {
	e.s.mu.Lock()
	defer e.s.mu.Unlock()
	e.forget()
	return exchange.Status{}
}

// semaphoreRecipe: a ticket waits in a line of locks, and then holds leases.
type semaphoreRecipe struct {
	*curatorTicket
	leases      *curator.Leases
	first, over bool   // s.mu: it was first among locks; its leases were given back
	lease       string // s.mu: the path of one, of a holder
}

func (p *semaphoreRecipe) precheck(ctx context.Context) error {
	because, err := p.leases.Against(ctx, p.j.Capacity)
	if err == nil && because != "" {
		err = curator.Mismatch(because)
	}
	if err != nil {
		return err
	}
	f, by, err := p.s.store.clash(ctx, p.s.l, p.entry, true)
	switch {
	case err != nil:
		return err
	case by != "":
		return curator.Mismatch(by)
	case !p.fits(f):
		return driver.ErrBusy
	}
	return nil
}

// fits: the permits of the ticket, and of all in front of it, are no more than there are.
func (p *semaphoreRecipe) fits(f *listing) bool {
	left := p.j.Capacity
	for _, o := range f.Keys {
		if o.ID == p.j.ID {
			return o.Units <= left
		}
		if o.Kind == driver.Semaphore {
			left -= o.Units
		}
	}
	return p.j.Units <= left
}

func (p *semaphoreRecipe) watched() (string, *queue) { return p.lease, p.q.leases }
func (p *semaphoreRecipe) alone() bool               { return p.first }

// intrudes looks for a lease of another number of permits than a ticket among locks says.
func (p *semaphoreRecipe) intrudes(ctx context.Context, o *ticket) (string, error) {
	if o.Foreign {
		return "", nil
	}
	return p.leases.Against(ctx, o.Capacity)
}

func (p *semaphoreRecipe) look(ctx context.Context) (exchange.Status, error) {
	p.s.mu.Lock()
	first, held := p.first, p.state == exchange.Held
	p.s.mu.Unlock()
	switch {
	case !first:
		return p.entry.look(ctx)
	case !held:
		return p.grant(ctx, false)
	}
	return p.whatBecame(ctx, p.leases.Look(ctx))
}

// whatBecame of a ticket that was looked at.
func (p *semaphoreRecipe) whatBecame(ctx context.Context, err error) (exchange.Status, error) {
	if errors.Is(err, driver.ErrGone) {
		return exchange.Status{}, zk.Unless(p.quit(ctx, false), driver.ErrGone)
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.statusNow(), err
}

// grant goes on with one that is first among locks.
func (p *semaphoreRecipe) grant(ctx context.Context, _ bool) (exchange.Status, error) {
	s := p.s
	s.mu.Lock()
	p.first = true
	key := p.key
	s.mu.Unlock()
	lease, inherited, err := p.leases.First(ctx, p.q.path+"/"+key.node)
	if errors.Is(err, driver.ErrGone) { // perhaps another ticket has expelled it
		if because, e := p.leases.Against(ctx, p.j.Capacity); e != nil || because != "" {
			err = cmp.Or(e, curator.Mismatch(because))
		}
	}
	if errors.Is(err, driver.ErrMismatch) {
		return exchange.Status{}, p.refuse(ctx, err)
	}
	if err != nil || lease == "" {
		return p.whatBecame(ctx, err)
	}
	s.mu.Lock()
	p.unwatch()
	p.inherited, p.lease = inherited, lease
	s.mu.Unlock()
	err = s.store.take(ctx, s.l, p.q, key, mark{leaves: true, version: anyVersion}, p.leases.Unlocks()...)
	if err != nil && !errors.Is(err, zk.ErrNoNode) { // else it was done, and the reply was lost
		return exchange.Status{}, err
	}
	was := p.now().state
	st, err := p.entry.grant(ctx, false)
	if err == nil && was != exchange.Held && st.State == exchange.Held {
		close(p.held)
	}
	return st, err
}

func (p *semaphoreRecipe) quit(ctx context.Context, clean bool) error {
	if err := p.settle(ctx); err != nil {
		return err
	}
	s := p.s
	s.mu.Lock()
	lock, first, ended := "", p.first, p.ended
	if p.state == exchange.Waiting && p.key != nil {
		lock = p.path()
	}
	s.mu.Unlock()
	switch {
	case ended:
		return driver.ErrGone
	case !first:
		err := p.entry.quit(ctx, clean)
		s.mu.Lock()
		first = p.first
		s.mu.Unlock()
		if !first || err != nil && !errors.Is(err, driver.ErrGone) {
			return err
		}
		lock = "" // it was first meanwhile
	}
	err := p.leases.Leave(ctx, lock, clean)
	if errors.Is(err, driver.ErrGone) && lock != "" { // perhaps it has another name
		err = p.entry.quit(ctx, clean)
	}
	if err == nil || errors.Is(err, driver.ErrGone) {
		s.mu.Lock()
		p.over = true
		p.forget()
		s.mu.Unlock()
	}
	return err
}

func (p *semaphoreRecipe) shrink(ctx context.Context, units int64) error {
	done, err := p.leases.Shrink(ctx, units)
	switch {
	case errors.Is(err, driver.ErrGone):
		return errors.Join(err, zk.Unless(p.quit(ctx, false), driver.ErrGone))
	case err != nil || done:
		return err
	}
	return p.rename(ctx, 0, func(next *ticket) { next.wish = min(next.wish, units) })
}

func (p *semaphoreRecipe) keep(context.Context, time.Duration) error { return curator.ErrFixedLease }
func (p *semaphoreRecipe) removeExpired(ctx context.Context) error   { return p.quit(ctx, false) }

func (p *semaphoreRecipe) abandon(ctx context.Context, l *link) error {
	if err := p.entry.abandon(ctx, l); err != nil {
		return err
	}
	err := p.leases.Abandon(ctx, l.Link)
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.over = err == nil
	return err
}

// dropped gives leases back that were made while another client took the ticket out.
func (p *semaphoreRecipe) dropped() {
	if p.first && !p.over {
		p.s.store.background(func(ctx context.Context) { _ = p.leases.Leave(ctx, "", false) })
	}
}

// linger waits for a ticket that is about to hold: others who hold, too, are on their way from locks to leases.
func (p *semaphoreRecipe) linger(ctx context.Context) exchange.Status {
	select {
	case <-p.held:
	case <-time.After(curator.Patience):
	case <-ctx.Done():
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.statusNow()
}

// barrierRecipe: a ticket is a member of a double barrier.
type barrierRecipe struct {
	*curatorTicket
	member *curator.Member
}

func (p *barrierRecipe) precheck(context.Context) error { return nil }
func (p *barrierRecipe) watched() (string, *queue)      { return p.path(), nil }

func (p *barrierRecipe) enter(ctx context.Context) (exchange.Status, error) {
	p.s.mu.Lock()
	key := keys.Key{ID: p.j.ID, Kind: driver.Barrier, Units: 1, Capacity: driver.RWCapacity}
	p.key = &ticket{Key: key, node: curator.UUID(p.j.ID)}
	p.s.mu.Unlock()
	return p.look(ctx)
}

func (p *barrierRecipe) look(ctx context.Context) (exchange.Status, error) {
	if p.Held() {
		err := p.member.Look(ctx)
		if errors.Is(err, driver.ErrGone) {
			return p.ends(), nil
		}
		p.s.mu.Lock()
		defer p.s.mu.Unlock()
		return p.statusNow(), err
	}
	zxid, err := p.member.Enter(ctx)
	switch {
	case errors.Is(err, driver.ErrGone):
		return p.ends(), nil
	case errors.Is(err, driver.ErrMismatch):
		return exchange.Status{}, p.refuse(ctx, err)
	case err != nil:
		return exchange.Status{}, err
	}
	p.s.mu.Lock()
	p.state, p.zxid = exchange.Waiting, zxid
	p.s.mu.Unlock()
	return p.grant(ctx, false)
}

func (p *barrierRecipe) quit(ctx context.Context, _ bool) error {
	err := p.member.Leave(ctx)
	if err == nil || errors.Is(err, driver.ErrGone) {
		p.ends()
	}
	return err
}

func (p *barrierRecipe) shrink(context.Context, int64) error       { return nil }
func (p *barrierRecipe) keep(context.Context, time.Duration) error { return curator.ErrFixedMember }
func (p *barrierRecipe) removeExpired(ctx context.Context) error   { return p.quit(ctx, false) }

// readAll is readAny with the tickets in other layouts, for callers that are shown a queue or ask for one of its
// tickets.
func (s *store) readAll(ctx context.Context, l *link, q *queue) (*listing, error) {
	f, err := s.readAny(ctx, l, q)
	if err == nil {
		err = s.beside(ctx, l, q, f, nil)
	}
	return f, err
}

// beside adds the tickets in other layouts to a listing.
func (s *store) beside(ctx context.Context, l *link, q *queue, f *listing, watch func(path string)) error {
	all, err := s.layouts.Tickets(ctx, l.Link, q.path, f.Names, watch)
	for _, t := range all {
		t.Order = int64(len(f.Keys) + 1)
		if n := len(f.Keys); n > 0 {
			t.Order = f.Keys[n-1].Order + 1
		}
		f.Keys = append(f.Keys, &ticket{Key: t.Key, node: t.Node, more: t.More, shown: t.Shown, aside: true})
	}
	return err
}

func parseLeases(nodes []string) *line {
	l := &line{Whole: true}
	for _, t := range curator.LeaseLine(nodes) {
		l.Keys = append(l.Keys, &ticket{Key: t.Key, node: t.Node})
	}
	return l
}

// lines is what package curator needs of the store.
type lines struct{ *store }

func (s lines) With(ctx context.Context, f func(context.Context, *zk.Link) error) error {
	return s.with(ctx, func(ctx context.Context, l *link) error { return f(ctx, l.Link) })
}
func (s lines) Background(f func(ctx context.Context)) bool { return s.background(f) }
func (s lines) Path(queue string) string                    { return s.node(queue) }
func (s lines) ACL() []zk.ACL                               { return s.acl }
func (s lines) Lay(ctx context.Context, l *zk.Link, path string, container bool) error {
	return s.lay(ctx, &link{Link: l}, path, container && len(path) > len(s.root))
}

func (s lines) Swap(ctx context.Context, l *zk.Link, id, path string, op func() (any, error)) (*zk.Stat, error) {
	return s.swap(ctx, &link{Link: l}, id, path, true, op)
}

func (s lines) Locks(nodes []string) (all []curator.Lock) {
	for _, t := range parseLine(nodes).Keys {
		n := curator.Lock{Node: t.node, ID: t.ID}
		if t.Kind == lockOfLeases {
			n.Units, n.Limit = t.wish, t.Capacity
		}
		all = append(all, n)
	}
	return all
}

func (s lines) Follow(f exchange.Follower, l *zk.Link, path string, children bool) {
	if f.Mailbox != "" {
		s.follow(f, l, path, children)
	}
}

// laidOut is the store, with what is different if an option asks for a layout of Curator.
func (s *store) laidOut() exchange.Store {
	if s.semaphores || s.barriers {
		return &laidOut{s}
	}
	return s
}

type laidOut struct{ *store }

// Traits: each change is made by itself.
func (s *laidOut) Traits() exchange.Traits {
	t := s.store.Traits()
	t.Together = 0
	return t
}

func (s *laidOut) Change(ctx context.Context, changes []exchange.Change, answer func(int, exchange.Answer)) {
	if len(changes) > 1 { // waiters that give up
		s.store.Change(ctx, changes, answer)
		return
	}
	exchange.Each(ctx, s, changes, answer)
}

// Join has a ticket that stands in a line leave again if others stand beside it.
func (s *laidOut) Join(ctx context.Context, j exchange.Join) (exchange.Status, error) {
	lends, meets := s.lends(j.Kind), j.Kind == driver.Barrier && s.barriers
	var wrong error
	switch {
	case lends:
		wrong = curator.CheckLeases(j.Units, j.Hold)
	case meets && j.Hold > 0:
		wrong = curator.ErrFixedMember
	}
	if wrong != nil {
		return exchange.Status{}, wrong
	}
	st, err := s.store.Join(ctx, j)
	o, e := s.live(j.Session.ID)
	if err != nil || e != nil {
		return st, err
	}
	t := o.entry(j.ID)
	if t == nil {
		return st, err
	}
	f, by, err := s.clash(ctx, o.l, t, lends || meets)
	if err == nil && by != "" {
		err = t.refuse(ctx, curator.Mismatch(by))
	}
	if p, is := t.recipe.(*semaphoreRecipe); is && err == nil && st.State == exchange.Waiting && p.fits(f) {
		st = p.linger(ctx)
	}
	return st, o.failed(ctx, err)
}

// clash finds a ticket of another kind than t that is older than those of the same kind, if one of the kinds has a
// layout of Curator.
func (s *store) clash(ctx context.Context, l *link, t *entry, aside bool) (f *listing, by string, err error) {
	q := s.queue(t.j.Queue)
	for {
		if f, err = s.readAll(ctx, l, q); err != nil {
			return nil, "", err
		}
		if aside && f.number.node != "" {
			return f, f.number.node, nil
		}
		differs := func(o *ticket) bool { return (o.aside || aside) && (o.aside != aside || o.Kind != t.j.Kind) }
		other := slices.IndexFunc(f.Keys, differs)
		if other < 0 {
			return f, "", nil
		}
		same := slices.IndexFunc(f.Keys, func(o *ticket) bool { return o.ID != t.j.ID && !differs(o) })
		zxid := t.zxid - 1 // of one that does not stand yet: later than any
		if same >= 0 {
			c, err := l.Get(ctx, q.path+"/"+f.Keys[same].node)
			if err == nil {
				zxid = min(zxid, joined(c)-1)
			} else if !errors.Is(err, zk.ErrNoNode) {
				return nil, "", err
			}
		}
		c, err := l.Get(ctx, q.path+"/"+f.Keys[other].node)
		switch {
		case errors.Is(err, zk.ErrNoNode): // it has just left
		case err != nil:
			return nil, "", err
		case joined(c) <= zxid:
			return f, f.Keys[other].node, nil
		default: // that one is to be refused
			return f, "", nil
		}
	}
}

func (s *laidOut) Resize(ctx context.Context, name string, capacity int64) (bool, error) {
	if s.semaphores {
		return false, curator.ErrResize
	}
	err := s.with(ctx, func(ctx context.Context, l *link) error {
		f, err := s.readAll(ctx, l, s.queue(name))
		if n := len(f.Keys); err == nil && n > 0 && f.Keys[n-1].aside {
			err = curator.Mismatch(f.Keys[n-1].node)
		}
		return err
	})
	if err != nil {
		return false, err
	}
	return s.store.Resize(ctx, name, capacity)
}

func (s *laidOut) Load(ctx context.Context, name string, f exchange.Follower) (driver.Cell, error) {
	c, own, err := s.layouts.Load(ctx, name, f)
	if !own {
		return s.store.Load(ctx, name, f)
	}
	if err != nil && f.Mailbox != "" {
		s.unfollow(f.Topic)
	}
	return c, err
}

func (s *laidOut) Swap(ctx context.Context, w driver.Swap) (driver.Cell, error) {
	c, own, err := s.layouts.Swap(ctx, &w)
	if !own {
		return s.store.Swap(ctx, w)
	}
	return c, err
}
