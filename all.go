package interlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/engine"
)

// All makes one lock of several, its parts: whoever acquires it has all of them, or none. The
// parts may be of any kind, and of several clients with different backends and TTLs.
//
// The parts are acquired one after the other in the order of their names, each with the prefix of
// its client. So two who acquire several locks by All never wait for each other for ever, in
// whatever order they name them, in one process or in several. Locks of one name and different
// clients have no order that all processes could know. So while one of these is held, the others
// are only tried: if one is busy, all are given back, and it comes first the next time. The
// promise holds as long as each lock has one name in all programs. It has two if some programs
// write a part of the name into the URL, as a path of ZooKeeper or etcd, and others into the
// prefix. Locks that a caller has acquired before, outside of this All, are not in the order.
//
//   - A part that is itself made by All counts as its parts.
//   - A lock that is named twice counts once, with the options of the first. The writer's side of a
//     read-write lock includes the reader's. Permits of one semaphore add up. One lock that is reached
//     through two clients is refused with ErrInvalid, unless it has room for both.
//   - [Wait] bounds the acquire of all; that of a part bounds the wait for this part. Other
//     options of [Lock.With] are given to each part: [Reentrant] counts for the parts that the
//     context holds, and the time of [ExpiresAfter] begins with the grant of each part.
//   - TryAcquire tries each part. If one is busy, those before it are given back.
//   - A part that is lost while others are waited for makes the acquire start again. When the
//     acquire fails, what was acquired is given back, also where [AtLeast] would keep others out.
//
// What the lease is, as one, stands at the methods of [Lease]; [Lease.Parts] has the lease of each
// part, with its token. When one part ends, all is lost: the bound contexts end with an error that
// names the part. The other parts are given back with Release. Without one they end as the lease of a
// client that is dead would, within a TTL. So work that follows its context has ended before
// another has any of the locks.
//
// Its name is those of the parts, joined by commas. Events are those of the parts; an acquire of all has none
// of its own.
func All(locks ...*Lock) *Lock {
	l := &Lock{parts: []*Lock{}}
	for _, p := range locks {
		l.include(p)
	}
	return l.complete()
}

// include adds a lock to the parts, in the order of the arguments.
func (l *Lock) include(p *Lock) {
	switch {
	case p == nil:
		l.wrong = errors.New("All: a lock is nil")
	case p.parts != nil:
		for _, q := range p.parts {
			l.include(q)
		}
		l.wrong = cmp.Or(l.wrong, p.wrong)
		if p.cfg.waits && (!l.cfg.waits || p.cfg.wait < l.cfg.wait) {
			l.cfg.wait, l.cfg.waits = p.cfg.wait, true
		}
	default:
		same := func(q *Lock) bool { return q.c == p.c && q.cfg.Queue == p.cfg.Queue }
		if i := slices.IndexFunc(l.parts, same); i >= 0 {
			l.parts[i] = l.parts[i].joinedBy(p)
			return
		}
		l.parts = append(l.parts, p)
	}
}

// joinedBy is the lock that is held by whoever holds both of two that have one queue.
func (l *Lock) joinedBy(p *Lock) *Lock {
	n := *l
	switch {
	case l.err != nil:
	case p.err != nil:
		n.wrong = p.err
	case l.cfg.Kind != p.cfg.Kind || l.cfg.Capacity != p.cfg.Capacity:
		n.wrong = fmt.Errorf("%w: it is %s, and %s", ErrMismatch, shape(l.cfg.Kind, l.cfg.Capacity), shape(p.cfg.Kind, p.cfg.Capacity))
	case l.cfg.Kind == driver.Semaphore:
		n.cfg.Units += p.cfg.Units
		n.cfg.weight = n.cfg.Units
	default:
		n.cfg.Units = max(l.cfg.Units, p.cfg.Units)
	}
	return n.With()
}

// complete names the lock, and finds what can never succeed.
func (l *Lock) complete() *Lock {
	if len(l.parts) == 0 {
		l.wrong = cmp.Or(l.wrong, errors.New("All: there are no locks"))
	}
	l.err = driver.Invalid(l.wrong)
	var names []string
	for _, p := range l.parts {
		names = append(names, p.cfg.Name)
		if l.err == nil && p.err != nil {
			l.err = ofPart(p.cfg.Name, p.err)
		}
	}
	l.cfg.Name = strings.Join(names, ", ")
	return l
}

// withAll is With for the lock of all parts.
func (l *Lock) withAll(opts []Option) *Lock {
	n := &Lock{parts: []*Lock{}, cfg: l.cfg, wrong: l.wrong}
	for _, o := range opts {
		o(&n.cfg)
	}
	for _, p := range l.parts {
		q := p.With(opts...)
		q.cfg.wait, q.cfg.waits = p.cfg.wait, p.cfg.waits
		n.parts = append(n.parts, q)
	}
	return n.complete()
}

// acquireAll acquires all parts, or none. What ends an attempt is given back before the next:
// a part that was lost, or one of several locks of one name that was busy.
func (l *Lock) acquireAll(ctx context.Context, try bool) (*Lease, error) {
	if l.err != nil {
		return nil, l.err
	}
	order := make([]int, len(l.parts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(l.parts[i].cfg.Queue, l.parts[j].cfg.Queue) })
	var b backoff.Backoff
	for {
		lease := l.leaseOfParts()
		err := lease.acquireParts(ctx, order, try)
		var crossed *crossing
		switch {
		case err == nil:
			return lease, nil
		case errors.As(err, &crossed):
			at := slices.Index(order, crossed.part)
			order = slices.Insert(slices.Delete(order, at, at+1), crossed.before, crossed.part)
		case !errors.Is(err, errPartLost):
			return nil, err
		}
		if b.Sleep(ctx) != nil {
			for _, p := range l.parts {
				if err := p.c.e.EndOfWait(ctx); errors.Is(err, ErrUnavailable) {
					return nil, err
				}
			}
			return nil, context.Cause(ctx)
		}
	}
}

// errPartLost: a part was lost before all were acquired.
var errPartLost = errors.New("a part was lost")

// crossing: a part was busy, and must not be waited for, since one of the same name is held.
type crossing struct{ part, before int } // an index of the parts, and of the order

func (*crossing) Error() string { return "crossing" }

// leaseOfParts makes a lease without parts, which an attempt adds.
func (l *Lock) leaseOfParts() *Lease {
	lease := &Lease{lock: l}
	lease.held.InitParts(len(l.parts))
	return lease
}

// acquireParts gives everything back unless it succeeds.
func (l *Lease) acquireParts(ctx context.Context, order []int, try bool) (err error) {
	held := false
	defer func() { // also of a panic, such as one of the log
		if !held {
			l.giveBack(ctx, try)
		}
	}()
	step, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b := &engine.Binding{Ended: cancel}
	_ = l.held.Bind(b) // it has no parts that could have ended
	defer l.held.Unbind(b)
	if err = l.enterParts(step, order); err == nil {
		l.tryTogether(step, order, try)
		err = l.acquireOthers(step, order, try)
	}
	switch closed := l.held.Closed(); {
	case closed != nil:
		return closed
	case l.held.Err() != nil:
		return errPartLost
	case err != nil:
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	held = l.held.Begin()
	if !held {
		return errPartLost
	}
	return nil
}

// enterParts has those parts that the context holds, and finds what is refused without waiting.
func (l *Lease) enterParts(ctx context.Context, order []int) error {
	for _, i := range order {
		p := l.lock.parts[i].newLease(ctx, true)
		nested, err := p.enterOpen(ctx)
		if err != nil {
			err = failed("acquire", p.Name(), err)
			p.span.emit(Event{Kind: EventGaveUp, Err: err})
			return ofPart(p.Name(), err)
		}
		if nested {
			l.held.Add(i, &p.held)
		}
	}
	return nil
}

// tryTogether tries the others at the same time, so that locks that are free take one round trip,
// however many they are. Nobody may wait for a part while it holds a later one: those behind the first
// that is not free are given back, unless all are about to be.
func (l *Lease) tryTogether(ctx context.Context, order []int, try bool) {
	parts := l.lock.parts
	for at, i := range order[1:] {
		if parts[order[at]].cfg.Queue == parts[i].cfg.Queue {
			return // of one name: see crossing
		}
	}
	leases := make([]*Lease, len(parts))
	began := time.Now()
	var tries sync.WaitGroup
	for _, i := range order {
		if l.held.Part(i) == nil {
			tries.Go(func() {
				lease := parts[i].newLease(ctx, true)
				if _, err := lease.get(ctx, true); err == nil {
					leases[i] = lease
				}
			})
		}
	}
	tries.Wait()
	took := time.Since(began)
	early := l.lock.leaseOfParts()
	defer func() { // also if the log panics
		if len(early.held.Parts()) > 0 {
			early.giveBack(ctx, true)
		}
	}()
	for at, i := range order {
		switch s := leases[i]; {
		case s == nil:
		case try || !slices.ContainsFunc(order[:at], func(j int) bool { return l.held.Part(j) == nil }):
			l.held.Add(i, &s.held)
		default:
			early.held.Add(i, &s.held)
		}
	}
	for _, i := range order {
		if s := leases[i]; s != nil {
			s.span.emit(Event{Kind: EventAcquired, Token: s.Token(), Took: took})
			s.span.acquired()
		}
	}
}

// acquireOthers acquires those that are not held yet, one after the other.
func (l *Lease) acquireOthers(ctx context.Context, order []int, try bool) error {
	for _, p := range l.held.Parts() {
		ctx = leaseOf(p).carry(ctx) // who waits for a part holds those before it
	}
	for at, i := range order {
		if l.held.Part(i) != nil {
			continue
		}
		p := l.lock.parts[i]
		first := at // of those that have its name
		for first > 0 && l.lock.parts[order[first-1]].cfg.Queue == p.cfg.Queue {
			first--
		}
		acquire := p.Acquire
		if try || first < at {
			acquire = p.TryAcquire
		}
		lease, err := acquire(ctx)
		switch {
		case err == nil:
			l.held.Add(i, &lease.held)
			ctx = lease.carry(ctx)
			continue
		case first == at || !errors.Is(err, ErrBusy):
		case l.isOneOf(ctx, p, order[first:at]):
			err = driver.Invalid(errors.New("two clients reach this lock: name it once"))
		case !try:
			return &crossing{i, first}
		}
		return ofPart(p.cfg.Name, err)
	}
	return nil
}

// isOneOf reports whether a lock is one of those that are held through other clients: then its
// queue has their tickets.
func (l *Lease) isOneOf(ctx context.Context, p *Lock, held []int) bool {
	call := p.c.e.Call(ctx)
	defer call.Release()
	q, err := p.c.look(call, p.cfg.Name)
	if err != nil {
		return false // it is found out at another attempt
	}
	return slices.ContainsFunc(q.Members, func(m driver.Member) bool {
		return slices.ContainsFunc(held, func(i int) bool { return l.held.Part(i).Ticket() == m.ID })
	})
}

// giveBack releases the parts of an attempt that came to nothing. As one that gives up a wait it
// waits until they have left, but not for long after the end of ctx.
func (l *Lease) giveBack(ctx context.Context, try bool) {
	l.held.End(ErrReleased)
	left := l.held.ReleaseParts(func(_ int, s *engine.Lease) {
		s.SkipAtLeast()
		_ = s.Release(!s.Inherited()) // what it was told of the last holder is for the next one to hear
	})
	var limit <-chan time.Time
	if try {
		limit = time.After(l.longestCall())
	}
	select {
	case <-left:
		return
	case <-limit:
		return
	case <-ctx.Done():
	}
	select {
	case <-left:
	case <-time.After(engine.Farewell):
	}
}

// longestCall is the longest time that one exchange with a backend takes.
func (l *Lease) longestCall() (longest time.Duration) {
	for _, p := range l.lock.parts {
		longest = max(longest, p.c.e.CallLimit())
	}
	return longest
}

// holds reports whether the lease of All has all that another lock is made of.
func (l *Lease) holds(lock *Lock) bool {
	return l.Err() == nil && !slices.ContainsFunc(lock.parts, func(p *Lock) bool {
		return !slices.ContainsFunc(l.Parts(), func(o *Lease) bool {
			q := o.lock
			return q.c == p.c && q.cfg.Queue == p.cfg.Queue && q.cfg.Kind == p.cfg.Kind && o.held.Units() >= p.cfg.Units
		})
	})
}

// ofPart is the error of a part, with its name.
func ofPart(name string, err error) error {
	if e, ok := err.(*Error); ok {
		err = e.Err
	}
	return engine.PartError(name, err)
}
