package curator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"

	"github.com/interlock-go/interlock/driver"
)

func (s *session) Join(ctx context.Context, r driver.Request) (driver.Ticket, error) {
	if err := s.usable(ctx); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.notSent(&r)
		return driver.Ticket{}, err
	}
	q := s.d.laneOf(r.Queue, r.Kind)
	if err := checkLoan(q, &r); err != nil {
		return driver.Ticket{}, err
	}
	limit := ctx
	ctx, cancel := s.within(ctx)
	defer cancel()
	t, err := s.join(ctx, q, r)
	if errors.Is(err, driver.ErrGone) && s.hasRefused(r.ID) {
		err = driver.ErrMismatch
	}
	if p := s.place(r.ID); err == nil && p != nil && q.leases != nil {
		t, err = s.linger(ctx, p, r.NoWait)
	}
	if r.Retry && errors.Is(err, driver.ErrBusy) {
		s.mu.Lock()
		s.left.Add(r.ID)
		s.mu.Unlock()
	}
	if err != nil {
		return driver.Ticket{}, s.failed(limit, err)
	}
	if err := s.usable(limit); err != nil {
		return driver.Ticket{}, err
	}
	return t, nil
}

func (s *session) join(ctx context.Context, q *lane, r driver.Request) (driver.Ticket, error) {
	if err := checkShape(&r); err != nil {
		if e := s.precheck(ctx, &place{s: s, q: q, req: r}); errors.Is(e, driver.ErrMismatch) {
			return driver.Ticket{}, e
		}
		return driver.Ticket{}, err
	}
	s.mu.Lock()
	left, known := s.left.Has(r.ID), s.places[r.ID] != nil
	s.mu.Unlock()
	if left {
		return driver.Ticket{}, driver.ErrGone
	}
	give := func() {}
	if !known {
		var err error
		if give, err = s.come(ctx, &r); err != nil {
			return driver.Ticket{}, err
		}
	}
	var p *place
	defer func() { s.came(p, give) }()
	s.mu.Lock()
	if s.left.Has(r.ID) {
		s.mu.Unlock()
		return driver.Ticket{}, driver.ErrGone
	}
	p = s.places[r.ID]
	fresh := p == nil
	if fresh {
		if err := s.roomFor(q, &r); err != nil {
			s.mu.Unlock()
			return driver.Ticket{}, err
		}
		p = &place{s: s, q: q, req: r, slot: give, news: make(chan struct{}), await: make(turn, 1), extended: s.d.Now(), edition: anyEdition, loan: loan{units: r.Units}}
		s.places[r.ID] = p
	}
	s.mu.Unlock()
	if p.q.name != q.name {
		return driver.Ticket{}, driver.ErrMismatch
	}
	if err := p.await.take(ctx); err != nil { // two calls with one ID
		return driver.Ticket{}, err
	}
	defer p.await.give()
	if fresh && r.NoWait {
		if err := s.d.certain(ctx, s.l, q, func() error { return s.precheck(ctx, p) }); err != nil {
			s.drop(p)
			return driver.Ticket{}, err
		}
	}
	var err error
	switch p.known() {
	case joining:
		err = s.stand(ctx, p, fresh && !r.Retry)
	case waiting:
		err = s.recheck(ctx, p)
	default:
		err = s.look(ctx, p)
	}
	if err != nil {
		s.withdraw(ctx, p, err)
		return driver.Ticket{}, err
	}
	if p.known() == waiting && r.NoWait && q.leases == nil {
		if err := s.quit(ctx, p, false); err != nil && !errors.Is(err, driver.ErrGone) {
			return driver.Ticket{}, err
		}
		return driver.Ticket{}, driver.ErrBusy
	}
	return p.ticket()
}

// come waits until a ticket that is new may be joined. Of one that gives up before that,
// nothing is known anywhere.
func (s *session) come(ctx context.Context, r *driver.Request) (give func(), err error) {
	give, err = s.l.Slot(ctx, zk.Coming)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unsent.Has(r.ID) {
		r.Retry = false
	}
	if err != nil {
		s.notSent(r)
	}
	return give, err
}

// notSent notes that nothing goes to the server for a Join: its Leave need not either, if
// none went before. s.mu is held.
func (s *session) notSent(r *driver.Request) {
	if !r.Retry {
		s.unsent.Add(r.ID)
	}
}

// came gives the slot back, once the request to make the node of p is not under way any more.
// There may be no p.
func (s *session) came(p *place, give func()) {
	var flight chan struct{}
	if p != nil {
		s.mu.Lock()
		flight = p.flight
		s.mu.Unlock()
	}
	if flight == nil {
		give()
		return
	}
	go func() {
		<-flight
		give()
	}()
}

func (p *place) known() state {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.state
}

// proof is of the session, whose end takes the ticket, and of the ticket, which
// this session removes if it is not renewed; s.mu is held.
func (p *place) proof() driver.Instant { return min(p.s.l.Proven(), p.extended) }

// ticket is what a caller is told.
func (p *place) ticket() (driver.Ticket, error) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	switch p.state {
	case gone:
		return driver.Ticket{}, driver.ErrGone
	case held:
		t := p.got
		if !p.fixed {
			t.Proof = p.proof()
		}
		return t, nil
	}
	return driver.Ticket{ID: p.req.ID, Queue: p.q.name}, nil
}

// drop forgets a ticket of which nothing stands.
func (s *session) drop(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.state = gone
	delete(s.places, p.req.ID)
	s.l.Lighten(s.zk, p.weight())
	p.changed()
}

// precheck spares a ticket that must not wait the writes, if others stand.
func (s *session) precheck(ctx context.Context, p *place) error {
	all, set, err := s.d.queue(ctx, s.l, s.d.lane(p.q.name))
	if err == nil {
		err = s.d.legible(p.q, &set)
	}
	if err != nil {
		return err
	}
	wish := p.wish()
	if !set.suits(&wish) {
		return driver.ErrMismatch
	}
	for i := range all {
		if _, leaves := all.intruder(i); !leaves && !all[i].suits(&wish) {
			return driver.ErrMismatch
		}
	}
	all = slices.DeleteFunc(all, func(n name) bool { return !n.suits(&wish) })
	if all = append(all, wish); len(all) > 1 && !all.holds(len(all)-1) {
		return driver.ErrBusy
	}
	return nil
}

func (p *place) wish() name {
	n := name{id: p.req.ID, kind: p.req.Kind, units: p.req.Units, capacity: p.req.Capacity}
	if p.q.leases != nil {
		n.limit = p.req.Capacity
	}
	return n
}

// stand puts the ticket into the queue, or finds it there, and looks who is in
// front.
func (s *session) stand(ctx context.Context, p *place, first bool) error {
	if p.q.meets {
		return s.enroll(ctx, p)
	}
	if !first {
		if err := p.settled(ctx); err != nil {
			return err
		}
		if found, err := s.find(ctx, p); err != nil || found {
			return err
		}
	}
	for attempts := 0; ; attempts++ {
		err := s.create(ctx, p)
		if errors.Is(err, zk.ErrNoNode) && attempts < 10 {
			// A container that is empty goes away at any time.
			// What a ticket with ReportDeath wants to know must not go with it.
			if err = s.d.lay(ctx, s.l, p.q.path, !p.req.ReportDeath); err == nil {
				continue
			}
		}
		if err != nil && sure(err) && p.known() == joining {
			s.drop(p)
		}
		return err
	}
}

// refuse notes that a ticket is about to be removed because there are others of another
// kind. If the answer to that is lost, whoever repeats the Join is told so all the same.
func (s *session) refuse(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused.Add(p.req.ID)
}

func (s *session) hasRefused(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused.Has(id)
}

// withdraw removes a ticket that waits where a look at its queue is refused, for good:
// nobody asks about it again.
func (s *session) withdraw(ctx context.Context, p *place, why error) {
	if !driver.IsPermanent(s.d.failed(why)) || p.known() != waiting {
		return
	}
	if err := s.quit(ctx, p, false); err != nil && !errors.Is(err, driver.ErrGone) {
		s.mu.Lock()
		p.doomed = true
		s.mu.Unlock()
	}
}

// settled waits until no creation is under way.
func (p *place) settled(ctx context.Context) error {
	p.s.mu.Lock()
	flight := p.flight
	p.s.mu.Unlock()
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

// sure reports whether an error means that nothing was done.
func sure(err error) bool {
	return errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zk.ErrInvalidACL) ||
		errors.Is(err, zk.ErrBadArguments) || errors.Is(err, zk.ErrAuthFailed)
}

// find looks for a ticket whose creation had no answer. One of an earlier
// session of ours is about to go away, and is not this one.
func (s *session) find(ctx context.Context, p *place) (bool, error) {
	n, err := s.search(ctx, p)
	if n == nil || err != nil {
		return false, err
	}
	c, err := s.l.Get(ctx, p.q.path+"/"+n.node)
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if c.Stat.EphemeralOwner != s.zk && n.until == 0 {
		if err := s.l.Remove(ctx, p.q.path+"/"+n.node); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return false, err
		}
		return false, nil
	}
	if err := p.stands(*n, joined(c)); err != nil {
		return false, err
	}
	if m, ok := decode(c.Data); ok {
		s.mu.Lock()
		p.got.Token = m.Token
		s.mu.Unlock()
	}
	return true, s.look(ctx, p)
}

// stands notes the node of the ticket.
func (p *place) stands(n name, zxid uint64) error {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.state != joining {
		return nil
	}
	if zxid == 0 || zxid >= driver.MaxToken {
		return driver.Permanent(fmt.Errorf("zookeeper: the transaction %d is no token: the ensemble has elected too many leaders", zxid))
	}
	p.state, p.n, p.zxid = waiting, n, zxid
	if p.q.leases != nil {
		p.s.d.background(func(ctx context.Context) { p.s.pursue(ctx, p) })
	}
	return nil
}

// create makes the node and, in the same round trip, looks whether anybody else
// is there.
func (s *session) create(ctx context.Context, p *place) error {
	stem := p.q.path + "/" + s.d.names.stem(p.req.ID, p.req.Kind, p.req.Units, p.req.Capacity)
	data := p.meta()
	p.q.mu.Lock()
	front, set := p.q.front, p.q.set
	p.q.mu.Unlock()
	contended, crowded := front > 0 || set, front > crowdLine
	type look struct {
		content
		all *listing
		err error
	}
	looked := make(chan look, 1)
	if !crowded { // else the list is looked at once the node is there
		go func() {
			var l look
			if contended {
				l.all, l.err = s.listed(ctx, p.q, false)
			} else {
				l.content, l.err = s.l.Get(ctx, p.q.path)
			}
			looked <- l
		}()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	flight := make(chan struct{})
	s.mu.Lock()
	p.flight = flight
	s.mu.Unlock()
	_, err := zk.Run(ctx, func() (string, error) {
		defer p.slot()
		defer close(flight)
		c, err := s.l.CreateSequential(stem, data, s.d.acl)
		if err == nil {
			err = s.made(p, c)
		} else if !sure(err) {
			s.unsure(p)
		}
		return c.Path, err
	})
	if err != nil {
		return err
	}
	if crowded {
		return s.look(ctx, p)
	}
	l := <-looked
	switch {
	case l.err != nil:
		return s.look(ctx, p)
	case contended:
		if err := s.judge(ctx, p, l.all); !errors.Is(err, errStale) {
			return err
		}
		return s.look(ctx, p)
	}
	return s.glance(ctx, p, l.content)
}

// made notes the node that was created, perhaps when nobody waits for it any
// more.
func (s *session) made(p *place, c zk.Created) error {
	path := c.Path
	n, ok := parse(path[strings.LastIndexByte(path, '/')+1:])
	if !ok {
		return driver.Permanent(fmt.Errorf("zookeeper: the node %s is none of a ticket", path))
	}
	err := p.stands(n, uint64(c.Zxid))
	if n.number == math.MaxInt32 {
		err = errNumbers
	}
	if err != nil || p.known() == gone || c.Session != s.zk || s.isEnded() {
		s.clear(func(ctx context.Context) { s.purge(ctx, path) })
	}
	return err
}

// unsure removes what may have come of a create without an answer once the session is
// over: if the program's client sent it in its next session, it would stay.
func (s *session) unsure(p *place) {
	if s.l.Own || !s.isEnded() {
		return // then it was sent in this session
	}
	s.clear(func(ctx context.Context) {
		for {
			found, err := s.search(ctx, p)
			if err == nil && found != nil {
				s.purge(ctx, p.q.path+"/"+found.node)
			}
			if err == nil || ctx.Err() != nil {
				return
			}
			select {
			case <-time.After(s.ttl / 8):
			case <-ctx.Done():
			}
		}
	})
}

// ZooKeeper gives the last number again and again, until the node that counts is
// made anew.
var errNumbers = errors.New("zookeeper: the sequence numbers of the queue are used up; they begin again once it has been empty")

// purge removes a node, sooner or later.
func (s *session) purge(ctx context.Context, path string) {
	for {
		err := s.l.Remove(ctx, path)
		if err == nil || errors.Is(err, zk.ErrNoNode) || ctx.Err() != nil {
			break
		}
		if s.l.Own && s.usable(ctx) != nil {
			return // it goes with its session
		}
		select {
		case <-time.After(s.ttl / 8):
		case <-ctx.Done():
			return
		}
	}
	if n, _ := parse(path[strings.LastIndexByte(path, '/')+1:]); n.number == math.MaxInt32 {
		if errors.Is(s.l.Remove(ctx, parent(path)), zk.ErrNotEmpty) { // of tickets, or of a setting
			_ = s.d.renumber(ctx, s.l, parent(path))
		}
	}
}

// The data of a queue's node: the number of the last exclusive ticket that was
// held and left cleanly. If that came after a setting, the letter is another one: it lets nobody pass
// who does not know of the setting.
const (
	markLetter = 'R'
	lateLetter = 'P'
)

func markOf(n int32) []byte { return strconv.AppendInt([]byte{markLetter}, int64(n), 10) }

func (n *name) mark() []byte {
	mark := markOf(n.number)
	if n.late {
		mark[0] = lateLetter
	}
	return mark
}

// ours reports whether data was written by us, or by nobody.
func ours(data []byte) bool {
	if len(data) == 0 {
		return true
	}
	_, ok := marked(data)
	return ok
}

func marked(data []byte) (number int32, ok bool) {
	if len(data) < 2 || data[0] != markLetter && data[0] != lateLetter {
		return 0, false
	}
	n, err := strconv.ParseInt(string(data[1:]), 10, 32)
	return int32(n), err == nil
}

// made returns how many children a node has ever had, which is the number that
// the next sequential one gets. ZooKeeper reports twice that, less the children
// that there are. It counts in 31 bits here: the next one wraps around.
func made(stat *zk.Stat) uint32 {
	return (uint32(stat.Cversion) + uint32(stat.NumChildren)) / 2
}

// in reports whether what was read of the queue is as new as the ticket.
func (n *name) in(stat *zk.Stat) bool {
	return (made(stat)-uint32(n.number)-1)&(1<<31-1) < 1<<30
}

// glance sees from the node of the queue whether the ticket is held: it is alone,
// or the mark says that the one in front has held and left, and so have
// all before. No child has come or gone since the ticket's node was made: so it stands.
func (s *session) glance(ctx context.Context, p *place, c content) error {
	p.q.learn(c.Data)
	s.mu.Lock()
	zxid := p.zxid
	s.mu.Unlock()
	if uint64(c.Stat.Pzxid) == zxid {
		number, ok := marked(c.Data)
		before := ok && number == p.n.number-1
		if c.Stat.NumChildren == 1 || before && c.Data[0] == markLetter && !s.d.names.leases && !s.d.names.barriers {
			s.mu.Lock()
			p.based, p.heir = true, !before && p.n.number != 0
			p.whole = p.n.exclusive()
			p.edition = edition(c.Stat.Version)
			s.mu.Unlock()
			return s.grant(ctx, p, false)
		}
	}
	return s.look(ctx, p)
}

// recheck is look after all that any client has seen done.
func (s *session) recheck(ctx context.Context, p *place) error {
	if err := s.l.CatchUp(ctx, p.q.path); err != nil {
		return err
	}
	return s.look(ctx, p)
}

// verify looks whether a ticket that is held still stands. Somebody else may have
// found out that it does not: then that is told there.
func (s *session) verify(ctx context.Context, p *place) error {
	if err := p.await.take(ctx); err != nil {
		return err
	}
	defer p.await.give()
	if p.known() != held {
		return nil
	}
	return s.look(ctx, p)
}

// look lists the queue and sees whether the ticket is held.
func (s *session) look(ctx context.Context, p *place) error {
	if p.lends() {
		return s.borrowed(ctx, p)
	}
	if p.q.meets {
		return s.attendance(ctx, p)
	}
	for {
		s.mu.Lock()
		near := p.near
		s.mu.Unlock()
		found, err := s.listed(ctx, p.q, near)
		if errors.Is(err, zk.ErrNoNode) {
			s.mu.Lock()
			p.forget()
			s.mu.Unlock()
			return driver.ErrGone
		}
		if err != nil {
			return err
		}
		if err := s.judge(ctx, p, found); !errors.Is(err, errStale) {
			return err
		}
	}
}

var errStale = errors.New("zookeeper: the list of tickets is older than the ticket")

// judge sees from a list whether the ticket is held.
func (s *session) judge(ctx context.Context, p *place, found *listing) error {
	all := found.all
	i, ok := all.place(p.req.ID)
	if !ok {
		if !p.n.in(found.Stat) && uint64(found.Stat.Czxid) < p.zxid {
			return errStale
		}
		s.mu.Lock()
		if p.state == waiting && !p.agreed && (!found.set.suits(&p.n) || slices.ContainsFunc(all, func(n name) bool { return !n.suits(&p.n) })) {
			s.refused.Add(p.req.ID) // one of them has expelled it
		}
		p.forget()
		s.mu.Unlock()
		return driver.ErrGone
	}
	p.q.mu.Lock()
	p.q.front, p.q.set = i, found.set.node != ""
	p.q.mu.Unlock()
	s.mu.Lock()
	p.near = i < nearFront
	p.n = all[i] // a ticket with a fixed end may have got another one
	was := p.state
	s.mu.Unlock()
	if was == held {
		return nil
	}
	if err := s.d.legible(p.q, &found.set); err != nil {
		return err
	}
	if err := s.agree(ctx, p, found, i); err != nil {
		return err
	}
	holds := all.holds(i)
	if !holds && all[i].units > all[i].capacity {
		return s.neverFits(ctx, p)
	}
	s.mu.Lock()
	if holds {
		p.edition, p.whole = edition(found.Stat.Version), i == 0 && all[i].exclusive()
	} else {
		p.view, p.epoch = all.view(i), found.at
		s.haunted(p.q, p.view.obstacles)
		if p.q.leases != nil {
			p.loan.asked = all.asked(i)
		}
	}
	if e, ok := all.exclusiveBefore(i); ok {
		if p.req.Kind == driver.Semaphore && p.last.node != "" && !all.numbered(p.last.number) {
			p.former = p.last
		}
		p.last = e
	} else if p.last.node != "" && i > 0 && before(all[0].number, p.last.number) {
		p.last = name{} // it left while it waited
	}
	reads := p.reads() && (holds || !p.based)
	s.mu.Unlock()
	if reads {
		if err := s.inherit(ctx, p, all[:i], holds); err != nil {
			return err
		}
	}
	if !holds {
		return nil
	}
	return s.grant(ctx, p, !all.holds(len(all)-1))
}

// agree makes sure, once, that no ticket in front of the one at i is of another kind or capacity,
// and then none ever will be. The queue belongs to the first comers: the ticket is refused,
// unless the other one is to be refused itself. That one may be about to leave, or its client
// does not know of it: it is expelled, by a transaction that finds the one in front of it
// still there. So it was never granted, for it has not been agreed with.
func (s *session) agree(ctx context.Context, p *place, found *listing, i int) error {
	s.mu.Lock()
	agreed := p.agreed
	s.mu.Unlock()
	if agreed {
		return nil
	}
	all := found.all
	if all[i].intrudes {
		s.refuse(p)
		if err := s.quit(ctx, p, false); err != nil && !errors.Is(err, driver.ErrGone) {
			return err
		}
		return fmt.Errorf("%w: the number of permits was set to %d", driver.ErrMismatch, found.set.capacity)
	}
	if j, ok := all.other(i); ok && !found.same {
		first, ok, err := s.intruder(ctx, p.q, all, j)
		if err != nil {
			return err
		}
		if !ok {
			return s.disagree(ctx, p, &all[j])
		}
		ops := p.q.expelling(&all[j], first)
		_, err = s.l.Multi(ctx, append(ops, p.q.unchanged(&all[j])...)...)
		if err == nil || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNodeExists) {
			err = errStale
		}
		return err
	}
	if found.lent {
		n, other, err := s.d.lentAt(ctx, s.l, p.q)
		if err != nil {
			return err
		}
		if other {
			return s.disagree(ctx, p, &n)
		}
	}
	s.mu.Lock()
	p.agreed = true
	s.mu.Unlock()
	return nil
}

// intruder returns the node because of which the ticket at i is to be refused.
func (s *session) intruder(ctx context.Context, q *lane, all line, i int) (node string, ok bool, err error) {
	if first, ok := all.intruder(i); ok {
		return q.path + "/" + first.node, true, nil
	}
	if q.leases == nil || all[i].limit == 0 {
		return "", false, nil
	}
	leases, err := s.l.leases(ctx, q, false)
	first, ok := leases.otherLimit(all[i].limit)
	return q.leases.path + "/" + first.node, ok, err
}

// disagree removes a ticket that is refused.
func (s *session) disagree(ctx context.Context, p *place, other *name) error {
	s.refuse(p)
	if err := s.quit(ctx, p, false); err != nil && !errors.Is(err, driver.ErrGone) {
		return err
	}
	return fmt.Errorf("%w: the ticket %s is in front", driver.ErrMismatch, other.node)
}

// neverFits removes a ticket that waits, and asks for more than there is by now. Its caller comes again, and
// is told why.
func (s *session) neverFits(ctx context.Context, p *place) error {
	s.refuse(p)
	if err := s.quit(ctx, p, false); err != nil {
		return err
	}
	return driver.ErrGone
}

// reads reports whether the ticket has to know how those in front of it have left.
func (p *place) reads() bool { return p.req.ReportDeath && p.q.leases == nil }

// inherit finds out whether the last exclusive holder has left cleanly: the last
// one that was seen in front; if there was none, one who had gone before.
func (s *session) inherit(ctx context.Context, p *place, front line, holds bool) error {
	c, err := s.l.Get(ctx, p.q.path)
	if err != nil {
		return err
	}
	number, ok := marked(c.Data)
	if !ok {
		number = -1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !p.based {
		// Tickets between the mark and this ticket who are gone may have been holders.
		since := p.n.number - number - 1
		if p.n.late && before(number, parseSetting(p.n.setting).number) {
			since -= 2 // the setting and the bell
		}
		p.based, p.heir = true, since > int32(len(front))
	}
	if p.last.node == "" || !holds {
		return nil
	}
	last := p.last
	if _, stands := front.place(last.id); stands {
		last = p.former // who holds beside this ticket is not the last who had all there was
	}
	if last.node != "" {
		p.heir = !ok || number != last.number
	}
	return nil
}

// grant notes that the ticket is held. s.look has found it in the queue.
func (s *session) grant(ctx context.Context, p *place, wanted bool) error {
	if p.q.leases != nil {
		return s.isFirst(ctx, p)
	}
	return s.granted(ctx, p, wanted)
}

func (s *session) granted(ctx context.Context, p *place, wanted bool) error {
	add, err := s.d.floor(ctx, s.l, p.q, p.zxid)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if p.state != waiting {
		s.mu.Unlock()
		return nil
	}
	token := p.got.Token // what it was told in an earlier session
	if token == 0 {
		token = p.zxid + add
	}
	p.got = driver.Ticket{ID: p.req.ID, Queue: p.q.name, Held: true, Token: token, Inherited: p.heir, Proof: p.proof()}
	if p.got.Token >= driver.MaxToken {
		s.mu.Unlock()
		return errUsedUp
	}
	s.d.note(p.zxid, token)
	hold, fixed := p.req.Hold, p.n.until != 0
	if hold == 0 && !fixed {
		p.isHeld(wanted)
	}
	s.mu.Unlock()
	switch {
	case fixed:
		return s.isFixed(ctx, p, wanted)
	case hold > 0:
		return s.fix(ctx, p, hold, false, wanted)
	}
	return nil
}

var errUsedUp = driver.Permanent(errors.New("zookeeper: the tokens of this queue are used up"))

// isHeld notes a grant; s.mu is held.
func (p *place) isHeld(wanted bool) {
	p.state, p.view, p.since = held, nil, p.s.d.Now()
	if wanted {
		p.told = true
		p.s.signals.Add(driver.Wanted, p.q.name, p.req.ID)
	}
	p.changed()
}
