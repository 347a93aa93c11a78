package exchange

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Change is what changes the tickets of one queue: a *[Join], *[Leave], *[Shrink] or *[Keep].
type Change interface {
	In() string // the name of the queue
}

// In is the name of the queue.
func (j *Join) In() string { return j.Queue }

// In is the name of the queue.
func (t *Ref) In() string { return t.Queue }

// Answer is what a Store says of a change.
type Answer struct {
	Status // of a Join; of another change only whether the queue is unsettled
	Err    error
}

// ErrAlone is the answer to a change that was not made, and never will be, because it cannot be made together
// with the others of its list. The client sends it again at once, alone.
var ErrAlone = errors.New("the change is to be made alone")

// Changer makes changes one by one. A [Store] that makes each by itself has these methods, and calls [Each].
type Changer interface {
	// Join puts a ticket at the end of its queue. Session.Join calls it, and repeats it with
	// j.Retry after an error: then the ticket may stand already, and is returned as it stands. A
	// queue that was not settled first seems to be full of the dead. It returns driver.ErrBusy,
	// ErrGone, ErrMismatch and ErrSession as driver.Session.Join does, and [ErrTokens]. An ID that is
	// that of a ticket of another session: ErrGone. Two things differ: a waiter that is found with
	// NoWait may be returned, and ErrBusy leaves no tombstone; the client has the ticket leave.
	//
	// Without rows of sessions, a Join that finds its ticket extends it: the client counts the ticket
	// as renewed then. Else another client would hold while this one is proven to.
	Join(ctx context.Context, j Join) (Status, error)

	// Leave takes a ticket out and grants the next waiters. Session.Leave calls it for a holder,
	// and for a ticket whose Join may still be under way: then l asks for a tombstone. Without one
	// that Join would make a ticket that no caller knows. The ticket is one of the session, or has
	// a fixed end. A ticket that does not stand: driver.ErrGone, and the tombstone.
	Leave(ctx context.Context, l Leave) (unsettled bool, err error)

	// Shrink reduces a ticket of the session to fewer units, and grants the next waiters. Session.Shrink
	// calls it. As many units or more change nothing, so that it may be repeated. A ticket of another
	// session: driver.ErrGone. Without the grants, waiters that fit would wait until the next exchange of
	// their queue.
	Shrink(ctx context.Context, s Session, t Ref, units int64) (unsettled bool, err error)

	// Keep gives a holder a fixed end, d from now. Session.Keep calls it, for a ticket of the
	// session, or for one of another session that has a fixed end. The ticket may outlive its
	// session, whose owner is shown for it. A waiter: [ErrNotHeld]. A ticket that is evicted and
	// would end later than without this: driver.ErrGone; else an eviction could be undone.
	Keep(ctx context.Context, s Session, t Ref, d time.Duration) error
}

// One makes one change.
func One(ctx context.Context, c Changer, change Change) (a Answer) {
	switch x := change.(type) {
	case *Join:
		a.Status, a.Err = c.Join(ctx, *x)
	case *Leave:
		a.Unsettled, a.Err = c.Leave(ctx, *x)
	case *Shrink:
		a.Unsettled, a.Err = c.Shrink(ctx, x.Session, x.Ref, x.Units)
	case *Keep:
		a.Err = c.Keep(ctx, x.Session, x.Ref, x.For)
	}
	return a
}

// Withdrawer is a [Changer] that takes out many waiters in one exchange.
type Withdrawer interface {
	// Withdraw is Leave for waiters of one queue that give up, or tickets that were waiters a moment ago; gone says
	// which did not stand. Each calls it: one by one a crowd would each get the grant, in vain. The IDs are of the
	// session; other tickets stay.
	Withdraw(ctx context.Context, s Session, queue string, ids []string, clean bool) (gone []bool, unsettled bool, err error)
}

// Each makes changes one by one, all at the same time. Waiters of one queue leave in one exchange if c is a
// [Withdrawer].
func Each(ctx context.Context, c Changer, changes []Change, answer func(i int, a Answer)) {
	w, can := c.(Withdrawer)
	first, ids := Withdrawal(changes)
	switch {
	case can && ids != nil:
	case len(changes) == 1:
		answer(0, One(ctx, c, changes[0]))
		return
	default:
		AtOnce(len(changes), func(i int) { answer(i, One(ctx, c, changes[i])) })
		return
	}
	gone, unsettled, err := w.Withdraw(ctx, first.Session, first.Queue, ids, first.Clean)
	for i := range changes {
		a := Answer{Status{Unsettled: unsettled}, err}
		if err == nil && gone[i] {
			a.Err = driver.ErrGone
		}
		answer(i, a)
	}
}

// Withdrawal are the tickets of a list that has waiters of one queue give up.
func Withdrawal(changes []Change) (first *Leave, ids []string) {
	for _, c := range changes {
		l, is := c.(*Leave)
		if is && first == nil {
			first = l
		}
		if !is || !l.Withdraws || l.Queue != first.Queue || l.Session.ID != first.Session.ID || l.Clean != first.Clean {
			return nil, nil
		}
		ids = append(ids, l.ID)
	}
	return first, ids
}

// OneQueue says that all changes of a list are of the same queue.
func OneQueue(changes []Change) bool {
	return !slices.ContainsFunc(changes, func(c Change) bool { return c.In() != changes[0].In() })
}

// AtOnce does so many things at the same time, and returns when all are done.
func AtOnce(n int, do func(i int)) {
	var all sync.WaitGroup
	for i := 1; i < n; i++ {
		all.Go(func() { do(i) })
	}
	if n > 0 {
		do(0)
	}
	all.Wait()
}

// Shrink reduces a ticket to fewer units.
func (s *session) Shrink(ctx context.Context, t driver.Ticket, units int64) error {
	return s.change(ctx, &Shrink{Ref: Ref{Queue: t.Queue, ID: t.ID}, Session: s.row, Units: units}, func(*entry) {})
}

// Keep gives a ticket a fixed end.
func (s *session) Keep(ctx context.Context, t driver.Ticket, in time.Duration) error {
	in = min(in, maxHold)
	sent := s.d.now()
	return s.change(ctx, &Keep{Ref: Ref{Queue: t.Queue, ID: t.ID}, Session: s.row, For: in}, func(e *entry) { e.fix(in, sent) })
}

// change makes a change, and calls changed when it has succeeded.
func (s *session) change(ctx context.Context, c Change, changed func(*entry)) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	var ref *Ref
	switch c := c.(type) {
	case *Shrink:
		ref = &c.Ref
	case *Keep:
		ref = &c.Ref
	}
	s.d.mu.Lock()
	if e := s.d.entries[ref.ID]; e != nil && e.queue == ref.Queue {
		*ref = e.ref()
	}
	s.d.mu.Unlock()
	m := s.d.submit(ctx, laneOf{class: ofHolder}, c)
	if m.Unsettled {
		s.d.settle(ref.Queue)
	}
	if m.Err != nil {
		return s.noteOver(m.Err)
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if e := s.d.entries[ref.ID]; e != nil {
		changed(e)
		e.tag = 0
	}
	return nil
}
