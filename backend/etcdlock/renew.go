package etcdlock

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/keys"
)

// attempts is how often a change is tried that meets those of others, and a heartbeat.
const attempts = 3

// Renew extends the lease of the session. A member that has been stopped answers nothing: if the URL names several,
// its connection is ended soon, and the next attempt goes to another one. An attempt is not given up sooner than
// that: in a busy process the next one would take as long.
func (s *store) Renew(ctx context.Context, o exchange.Session, refs []exchange.Ref, extend int) (r exchange.Renewal, err error) {
	var ended atomic.Bool
	endSilent := func() {
		if s.wires != nil && s.wires.endSilent(o.TTL) {
			ended.Store(true)
		}
	}
	if end, ok := ctx.Deadline(); ok && len(s.client.Endpoints()) > 1 {
		defer time.AfterFunc(time.Until(end)/3, endSilent).Stop()
	}
	for range attempts {
		if err = s.undetach(ctx, o, refs[:extend]); err == nil {
			r, err = s.renew(ctx, o, refs)
		}
		if err == nil || driver.IsPermanent(err) {
			return r, err
		}
		s.endIdle()
		if ctx.Err() != nil {
			endSilent()
			return r, err
		}
		if !errors.Is(err, errTerm) && !errors.Is(err, rpctypes.ErrCompacted) && !ended.Load() {
			return r, err
		}
	}
	return r, err
}

var errTerm = errors.New("leaders were elected while the lease was extended")

// renew is one attempt: it extends the lease and reads the status of tickets, both at once.
//
// The answer of a KeepAlive alone proves nothing: a leader that cannot write to its disk goes on to
// answer, while another one counts the lease down. But a leader that answers a linearizable read was the only
// one when the read was sent, and a leader that is elected later gives each lease its whole TTL anew. So a lease that
// was extended in the term of Raft in which the read was answered lasts for its TTL from when both were sent.
func (s *store) renew(ctx context.Context, o exchange.Session, refs []exchange.Ref) (r exchange.Renewal, err error) {
	if driver.Now().Sub(driver.Instant(s.heard.Load())) > o.TTL {
		// All leases were given up. Requests may arrive though no answers do: what extends would keep others out.
		if err := s.answers(ctx); err != nil {
			return r, err
		}
	}
	sent := driver.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var term uint64
	var lost error
	extended := make(chan struct{})
	go func() {
		defer close(extended)
		if term, lost = s.keepAlive(ctx, leaseOf(o.ID)); lost != nil {
			cancel()
		}
	}()
	l := s.newLook(o, refs, false)
	err = l.run(ctx)
	<-extended
	switch {
	case errors.Is(lost, rpctypes.ErrLeaseNotFound):
		return r, driver.ErrSession
	case lost != nil:
		return r, lost
	case err != nil:
		return r, err
	case l.over:
		return r, driver.ErrSession
	case len(l.terms) != 1 || !l.terms[term]:
		return r, errTerm
	}
	for i := range l.found {
		l.found[i].Sent = sent
	}
	return exchange.Renewal{Tickets: l.found}, nil
}

// Look reads the status of tickets, and has those that wait watched.
func (s *store) Look(ctx context.Context, o exchange.Session, refs []exchange.Ref) ([]exchange.Status, error) {
	l := s.newLook(o, refs, true)
	err := l.run(ctx)
	if err == nil && !slices.ContainsFunc(l.found, func(st exchange.Status) bool { return st.State != exchange.NotAsked }) {
		err = l.err
	}
	return l.found, err
}

// look is a question about tickets.
type look struct {
	*batch
	session exchange.Session
	refs    []exchange.Ref
	watch   bool              // what keeps waiters out
	found   []exchange.Status // each is gone unless it was found
	over    bool              // the session has no key any more
	queues  map[string]*queue
	all     keys.Floor // of all tokens
	told    bool       // that was asked for
	seen    []seen

	err   error // of what was read
	wrong error // of the floor of all tokens: nobody is granted
}

// queue is what is read of the queue of tickets that may be held since the last look.
type queue struct {
	line
	asked     bool  // the line was asked for
	told      bool  // the mark was asked for, and what the queue keeps
	keeps     bool  // what the queue keeps was asked for
	semaphore bool  // for a ticket that is one of its permits
	read      int64 // the revision at which the line was read first
	mark      keys.Mark
	wrong     error     // of what the queue keeps: nobody is granted
	unfits    []*ticket // of the session, which can never be held
}

// seen is a ticket that stands, and where.
type seen struct {
	i int // in refs
	*ticket
	place
	front *ticket // that it is to watch; nil: the line says which
	far   bool    // others may stand between
	new   bool    // it has just come
}

func (s *store) newLook(o exchange.Session, refs []exchange.Ref, watch bool) *look {
	return &look{batch: s.batch(), session: o, refs: refs, watch: watch, found: make([]exchange.Status, len(refs)), queues: map[string]*queue{}}
}

// run asks in parts if the answer is too long. A ticket whose own answer is too long is not asked about.
func (l *look) run(ctx context.Context) error {
	err := l.ask(ctx)
	half := len(l.refs) / 2
	if !tooLong(err) || half == 0 {
		return err
	}
	found := l.found[:0]
	for _, refs := range [][]exchange.Ref{l.refs[:half], l.refs[half:]} {
		of := l.s.newLook(l.session, refs, l.watch)
		switch failed := of.run(ctx); {
		case tooLong(failed):
			of.err = illegible(refs[0].Queue, failed)
			for i := range refs {
				of.found[i] = exchange.Status{State: exchange.NotAsked}
			}
		case failed != nil:
			return failed
		default:
			err = nil
		}
		found = append(found, of.found...)
		maps.Copy(l.terms, of.terms)
		l.over, l.err = l.over || of.over, cmp.Or(l.err, of.err)
	}
	return err
}

// ask reads first what is enough most of the time: of a holder, whether it stands alone, and of a waiter,
// whether what keeps it out stands.
func (l *look) ask(ctx context.Context) error {
	l.get(l.s.session(l.session), func(all kvs) { l.over = len(all) == 0 })
	var rest []int
	for i, ref := range l.refs {
		blocker, created := l.s.watches.blocker(ref)
		switch {
		case ref.Tag&tagHeld != 0:
			l.holder(i, ref, &rest)
		case blocker != "":
			l.waiter(i, ref, blocker, created, &rest)
		default:
			rest = append(rest, i)
		}
	}
	if err := l.batch.run(ctx); err != nil {
		return err
	}
	rest, err := l.nearer(ctx, rest)
	if err == nil {
		err = l.rest(ctx, rest)
	}
	if err != nil {
		return err
	}
	return l.judge(ctx)
}

// rest reads the lines of tickets, and these.
func (l *look) rest(ctx context.Context, rest []int) error {
	found := map[int]bool{}
	for _, i := range rest {
		l.front(l.refs[i].Queue)
		l.ticket(l.refs[i], func(t *ticket) {
			found[i] = true
			if t.Order > l.queues[t.queue].read { // by another transaction of the batch: others may have come between
				l.found[i].State = exchange.NotAsked
				return
			}
			l.seen = append(l.seen, seen{i: i, ticket: t})
		})
	}
	if err := l.batch.run(ctx); err != nil {
		return err
	}
	for _, i := range rest {
		if ref := l.refs[i]; !found[i] { // of another session
			t, err := l.s.search(ctx, &l.queues[ref.Queue].line, ref.Queue, ref.ID, false)
			if err != nil {
				return err
			}
			if t != nil {
				l.seen = append(l.seen, seen{i: i, ticket: t})
			}
		}
	}
	return nil
}

// ticket asks for a ticket of the session.
func (l *look) ticket(ref exchange.Ref, take func(*ticket)) {
	for _, key := range l.s.keys(l.session, ref) {
		l.get(key, func(all kvs) {
			if t := l.s.readOne(ref, all); t != nil {
				t.knows(ref.Tag)
				take(t)
			}
		})
	}
}

// search looks for a ticket in a queue, or only among the holders.
func (s *store) search(ctx context.Context, ln *line, queue, id string, all bool) (t *ticket, err error) {
	err = s.readUntil(ctx, ln, queue, func() bool {
		if i := slices.IndexFunc(ln.Keys, func(t *ticket) bool { return t.ID == id }); i >= 0 {
			t = ln.Keys[i]
		}
		return t != nil || !all && ln.Full()
	})
	return t, err
}

func (l *look) holder(i int, ref exchange.Ref, rest *[]int) {
	q := l.numbered(ref)
	l.add(l.s.front(ref.Queue, 0, 2, false), func(r *pb.RangeResponse) {
		ln := line{}
		ln.Kept = q.Kept
		l.s.readLine(&ln, ref.Queue, r)
		for _, t := range ln.Keys {
			if t.knows(ref.Tag); t.ID == ref.ID && ln.Whole && (ln.Permits() == 0 || len(ln.Keys) == 1 && ref.Tag&tagExclusive != 0) {
				l.seen = append(l.seen, seen{i: i, ticket: t, place: ln.Place(t)})
				return
			}
		}
		*rest = append(*rest, i)
	})
}

// waiter asks whether what keeps a waiter out stands. One that an event is about may be held by now: if it
// was behind a holder that has left, and needs the whole capacity, nothing is in front of it, so that the
// queue need not be read, which the server would have to sort. Not so of one that has watched a ticket far in
// front of it.
func (l *look) waiter(i int, ref exchange.Ref, key string, created int64, rest *[]int) {
	var blocker *ticket
	behind, wanted := false, false
	q := l.numbered(ref)
	l.get(key, func(all kvs) {
		if len(all) > 0 {
			blocker = l.s.readTicket(ref.Queue, all[0])
		}
	})
	if l.watch && len(l.refs) == 1 && created != 0 {
		l.queue(ref.Queue)
		l.get(l.s.leaver(ref.Queue), func(all kvs) {
			behind = len(all) > 0 && string(all[0].Value) == strconv.FormatInt(created, 10)
		})
		l.add(l.s.front(ref.Queue, 0, 2, false), func(r *pb.RangeResponse) {
			var ln line
			l.s.readLine(&ln, ref.Queue, r)
			wanted = slices.ContainsFunc(ln.Keys, func(t *ticket) bool { return t.ID != ref.ID })
		})
	}
	l.ticket(ref, func(t *ticket) {
		b := blocker
		before := b != nil && b.Order < t.Order // else its key may have another ticket by now

		var ln line // without a number that was set
		switch {
		case q.Number.Permits > 0, uint64(t.Order) != ref.Tag>>tagBits: // or a later ticket with that ID
			*rest = append(*rest, i)
		case before && ln.KeepsOut(b, t):
			l.seen = append(l.seen, seen{i: i, ticket: t, place: place{Known: true, All: true}, front: b, far: created == 0})
		case !before && behind && ln.NeedsAll(t):
			l.seen = append(l.seen, seen{i: i, ticket: t, place: place{Known: true, Held: true, Exclusive: true, Wanted: wanted, All: true}})
		default:
			*rest = append(*rest, i)
		}
	})
}

// of is what is read of a queue.
func (l *look) of(name string) *queue {
	q := l.queues[name]
	if q == nil {
		q = &queue{}
		l.queues[name] = q
	}
	return q
}

// front asks for what says who is held. For permits, what the queue keeps and the mark are asked for once
// more, to be of one transaction with the line.
func (l *look) front(name string) *queue {
	q := l.of(name)
	if q.asked {
		return q
	}
	q.asked = true
	if q.semaphore {
		q.told, q.keeps = false, false
	}
	l.queue(name)
	l.add(l.s.front(name, 0, perFront, true), func(r *pb.RangeResponse) {
		q.read = l.revision
		l.s.readLine(&q.line, name, r)
		q.at = l.revision
	})
	return q
}

// queue asks for what is to be known of a holder of the queue.
func (l *look) queue(name string) *queue {
	q := l.of(name)
	if !l.told {
		l.told = true
		l.get(l.s.floor(""), func(all kvs) { l.all = l.readKept(all, &l.wrong).Floor })
	}
	if !q.told {
		q.told = true
		l.together(3) // with the line
		l.get(l.s.mark(name), func(all kvs) { q.mark = readMark(all) })
		l.keeps(name)
	}
	return q
}

// numbered asks for the number of permits, unless the ticket is of another kind.
func (l *look) numbered(ref exchange.Ref) *queue {
	if ref.Tag&tagSemaphore != 0 {
		l.keeps(ref.Queue).semaphore = true
	}
	return l.of(ref.Queue)
}

// keeps asks for what a queue keeps.
func (l *look) keeps(name string) *queue {
	q := l.of(name)
	if !q.keeps {
		q.keeps = true
		l.get(l.s.floor(name), func(all kvs) { q.Kept = l.readKept(all, &q.wrong) })
	}
	return q
}

func (l *look) readKept(all kvs, wrong *error) keys.Kept {
	k, err := readKept(all)
	*wrong, l.err = err, cmp.Or(l.err, err)
	return k
}

// perJoin is how many tickets of a queue are read by the transaction that adds one, without an order. Further ones
// are read in their order: perFront at first, and then perPage at a time.
const (
	perJoin  = 20
	perFront = 8
	perPage  = 1000
)

// front asks for the first tickets, or for those that were created from a revision on. Without an
// order it asks for any, which costs nothing in a long queue.
func (s *store) front(queue string, from, most int64, ordered bool, more ...clientv3.OpOption) clientv3.Op {
	prefix := s.queue(queue)
	opts := []clientv3.OpOption{clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)), clientv3.WithLimit(most)}
	if ordered {
		opts = append(opts, clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	}
	if from > 0 {
		opts = append(opts, clientv3.WithMinCreateRev(from))
	}
	return clientv3.OpGet(prefix, append(opts, more...)...)
}

// readUntil reads a line further, as it was at its revision, until that is enough, or all of it is read.
func (s *store) readUntil(ctx context.Context, ln *line, name string, enough func() bool) error {
	for !enough() && !ln.Whole {
		err := fewer(perPage, func(n int64) error {
			b := s.batch()
			b.add(s.front(name, ln.UpTo+1, n, true, clientv3.WithRev(ln.at)), func(r *pb.RangeResponse) { s.readLine(ln, name, r) })
			return b.run(ctx)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// judge says of each ticket that was seen how it stands.
func (l *look) judge(ctx context.Context) error {
	left := map[clientv3.LeaseID]time.Duration{}
	var deep []*seen
	for i := range l.seen {
		t := &l.seen[i]
		if !t.Known && (t.front == nil || !t.far) {
			q := l.of(t.queue)
			err := l.s.readUntil(ctx, &q.line, t.queue, func() bool {
				t.place = q.Place(t.ticket)
				return t.Known && (!l.watch || t.All || q.NeedsAll(t.ticket))
			})
			if err != nil {
				return err
			}
		}
		q, known := l.of(t.queue), l.refs[t.i].Tag
		wrong := cmp.Or(q.wrong, l.wrong) != nil
		switch {
		case wrong && !t.sure && !t.ticket.Held:
			l.found[t.i].State = exchange.NotAsked
			continue
		case !t.standsFor(l.session, t.place.Held):
			continue
		}
		if t.Evicted && t.of(l.session) && t.attached() {
			if err := l.s.expel(ctx, t.ticket); err != nil {
				return err
			}
		}
		if _, ok := left[t.lease]; !ok && t.lease != leaseOf(l.session.ID) {
			var err error
			if left[t.lease], err = l.s.leftOf(ctx, t.ticket); err != nil {
				return err
			}
		}
		st := l.s.status(t.ticket, t.place)
		st.Left = left[t.lease]
		st.Tag |= known & tagWaited
		st.Stray = t.lease != leaseOf(l.session.ID) && !st.Fixed && !st.Evicted
		switch {
		case wrong:
			st.Tag = known
		case t.place.Held && (known&tagHeld == 0 || t.Exclusive && known&tagExclusive == 0):
			// One behind a new ticket may have read the queue between, and waits for its key to be written.
			behind := func(o *ticket) bool { return o.Order > t.Order }
			waited := !t.new || q.at > t.Order && (!q.Whole || slices.ContainsFunc(q.Keys, behind))
			if !t.new {
				st.Tag |= tagWaited
			}
			err := l.s.granted(ctx, t.ticket, q.MarkFor(q.mark, t.ID), keys.Token(t.Order, q.Floor, l.all), waited, &st)
			switch {
			case err != nil && t.Stays: // it holds, and the next look tries again
				st.Tag = known
			case errors.Is(err, rpctypes.ErrNoSpace): // it waits for room, and no event tells when there is some
				st = l.s.status(t.ticket, place{})
				st.Tag, st.Blocked = st.Tag|tagWaited, true
			case err != nil && !l.watch: // the next heartbeat tries again
				st = exchange.Status{State: exchange.NotAsked}
			case err != nil:
				return err
			}
		case !t.place.Held && t.of(l.session) && q.Unfit(t.ticket):
			q.unfits = append(q.unfits, t.ticket)
		case !t.place.Held && l.watch && (t.All || t.front != nil):
			l.s.watchWaiter(t, l.first)
		case !t.place.Held && l.watch:
			deep = append(deep, t)
		}
		l.found[t.i] = st
	}
	l.numbers(ctx)
	for i, ref := range l.refs {
		if st := l.found[i].State; st == exchange.Gone || st == exchange.Held {
			l.s.watches.drop(ofTicket(ref.ID))
		}
	}
	return l.watchDeep(ctx, deep)
}

// status is what is known of a ticket without further questions.
func (s *store) status(t *ticket, p place) exchange.Status {
	st := exchange.Status{State: exchange.Waiting, Revoked: t.Revoked, Evicted: t.Evicted, Fixed: t.Fixed > 0, Hold: t.Fixed, Tag: t.tag(p)}
	if p.Held {
		st.State, st.Wanted = exchange.Held, p.Wanted
	}
	return st
}

// granted is called when a ticket is seen to be held for the first time, or again since that is not
// known. It writes what others have to know of it. Another exchange may do the same meanwhile.
func (s *store) granted(ctx context.Context, t *ticket, m keys.Mark, token uint64, waited bool, st *exchange.Status) error {
	st.Token = token
	for range attempts {
		st.Inherited = m.Inherits(t.ID)
		when, then, lease, err := s.grants(ctx, t, st.Tag&tagExclusive != 0, m, waited)
		if err != nil || len(then) == 0 {
			return err
		}
		got, err := s.change(ctx, when, then, []clientv3.Op{clientv3.OpGet(t.key), clientv3.OpGet(s.mark(t.queue))})
		if err == nil && got.Succeeded {
			if lease != t.lease {
				st.Fixed, st.Hold, st.Left, st.Stray = true, t.Hold, t.Hold, false
			}
			return nil
		}
		if lease != t.lease {
			_ = s.revoke(ctx, lease) // if its key is attached to it, since the reply was lost, the ticket ends
		}
		if err != nil {
			return err
		}
		found := s.readOne(exchange.Ref{Queue: t.queue, ID: t.ID}, got.Responses[0].GetResponseRange().Kvs)
		if found == nil {
			*st = exchange.Status{}
			return nil
		}
		*t, m = *found, readMark(got.Responses[1].GetResponseRange().Kvs)
		if waited = false; t.Fixed > 0 { // by the other exchange
			st.Fixed, st.Hold, st.Left, st.Stray = true, t.Fixed, t.Fixed, false
		}
	}
	return errors.New("the ticket was changed by others again and again")
}

// grants is the change by which granted writes that a ticket is held, and the lease that the ticket has
// afterwards. No operations: there is nothing to write.
func (s *store) grants(ctx context.Context, t *ticket, exclusive bool, m keys.Mark, waited bool) (when []clientv3.Cmp, then []clientv3.Op, lease clientv3.LeaseID, err error) {
	when, lease = []clientv3.Cmp{unchanged(t)}, t.lease
	if t.ReportDeath && exclusive && m.ID != t.ID {
		when = append(when, clientv3.Compare(clientv3.ModRevision(s.mark(t.queue)), "=", m.Changed))
		then = append(then, clientv3.OpPut(s.mark(t.queue), text(m.By(t.ID))))
	}
	switch {
	case t.Hold > 0 && t.Fixed == 0:
		if lease, err = s.grantFixed(ctx, t.Hold); err != nil {
			return nil, nil, 0, err
		}
		fixed := *t
		fixed.Fixed = t.Hold
		then = append(then, s.rewrite(&fixed, lease))
	case waited && !exclusive && t.Kind == driver.Semaphore:
		// The waiter behind it waits for this change, to become the first.
		then = append(then, s.rewrite(t, lease))
	}
	return when, then, lease, nil
}

// Detach moves strays to a lease that nobody extends. It may take effect late: see undetach.
func (s *store) Detach(ctx context.Context, o exchange.Session, refs []exchange.Ref) error {
	attached := leaseOf(o.ID)
	var strays []*ticket
	l := s.newLook(o, nil, false)
	for _, ref := range refs {
		l.ticket(ref, func(t *ticket) {
			if t.lease == attached {
				strays = append(strays, t)
			}
		})
	}
	if err := l.batch.run(ctx); err != nil || len(strays) == 0 {
		return err
	}
	s.mu.Lock()
	for _, t := range strays {
		s.detaching[t.ID] = true
	}
	s.mu.Unlock()
	lease, err := s.grantRest(ctx, attached, o.TTL)
	if err != nil {
		return err
	}
	var ops []clientv3.Op
	for _, t := range strays {
		ops = append(ops, ifUnchanged(t, clientv3.OpPut(t.key, "", clientv3.WithIgnoreValue(), clientv3.WithLease(lease))))
	}
	if err := s.changeAll(ctx, ops); err != nil {
		return err // it may come yet
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range strays {
		delete(s.detaching, t.ID)
	}
	return nil
}

// undetach is called before a heartbeat extends tickets that are named again. If a Detach of one is under
// way, or may still come, that must not take effect any more: it would move the ticket to a lease that may
// end before what the heartbeat proves. So the ticket is written anew, which the Detach does not expect.
func (s *store) undetach(ctx context.Context, o exchange.Session, named []exchange.Ref) error {
	var pending []exchange.Ref
	s.mu.Lock()
	for i := 0; i < len(named) && len(s.detaching) > 0; i++ {
		if s.detaching[named[i].ID] {
			pending = append(pending, named[i])
		}
	}
	s.mu.Unlock()
	err := s.anew(ctx, o, pending, func(t *ticket) clientv3.LeaseID { return t.lease })
	if err == nil && len(pending) > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, ref := range pending {
			delete(s.detaching, ref.ID)
		}
	}
	return err
}

// Attach moves strays back.
func (s *store) Attach(ctx context.Context, o exchange.Session, refs []exchange.Ref) error {
	return s.anew(ctx, o, refs, func(t *ticket) clientv3.LeaseID {
		if t.Fixed > 0 || t.Evicted {
			return 0
		}
		return leaseOf(o.ID)
	})
}

// anew writes tickets anew that stand, each with a lease; 0: not this one.
func (s *store) anew(ctx context.Context, o exchange.Session, refs []exchange.Ref, lease func(*ticket) clientv3.LeaseID) error {
	for _, ref := range refs {
		err := s.alter(ctx, o, ref, func(t *ticket, _ place) (ops []clientv3.Op, err error) {
			if id := lease(t); id != 0 {
				ops = append(ops, s.rewrite(t, id))
			}
			return ops, nil
		})
		if err != nil && !errors.Is(err, driver.ErrGone) {
			return err
		}
	}
	return nil
}

// changeAll makes changes. Each has a condition of its own.
func (s *store) changeAll(ctx context.Context, ops []clientv3.Op) error {
	for some := range slices.Chunk(ops, maxOps) {
		if _, err := s.change(ctx, nil, some, nil); err != nil {
			return err
		}
	}
	return nil
}

// Tickets is never called: a cluster has one history.
func (s *store) Tickets(context.Context, exchange.Session) ([]exchange.Ref, error) { return nil, nil }
