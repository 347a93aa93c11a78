package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/interlock-go/interlock/internal/oneline"
)

// Whole is the lease of several locks: it has a lease of each part. A binding in the lease of each part
// tells it when that ends, and when another asks for the part.
//
// Its mutex may be locked under the mutex of a queue. So nothing is asked of a part while it is held.
type Whole struct {
	given chan struct{} // closed when Release begins

	mu     sync.Mutex
	got    []*Lease // by part; nil: not acquired yet
	order  []int    // of the parts, as they were acquired
	begun  bool     // the holder has it
	closed error    // Close of a part's client has ended the bound contexts
	asked  bool     // for a part
	ending ending

	once outcome
}

func NewWhole(parts int) *Whole {
	return &Whole{got: make([]*Lease, parts), given: make(chan struct{})}
}

// Add notes that part i is held. It is called by the goroutine that acquires.
func (w *Whole) Add(i int, s *Lease) {
	w.mu.Lock()
	w.got[i] = s
	w.order = append(w.order, i)
	w.mu.Unlock()
	b := &Binding{Asked: w.ask}
	b.Ended = func(error) { w.partEnded(s, b) }
	w.partEnded(s, b)
	if s.isRevoked() {
		w.ask()
	}
}

// Part is part i; nil if it is not held. It is called by the goroutine that acquires.
func (w *Whole) Part(i int) *Lease { return w.got[i] }

// partEnded is called when the contexts that are bound to a part have ended: with its lease, or
// before, when Close begins. It binds b to a lease that has not ended.
func (w *Whole) partEnded(s *Lease, b *Binding) {
	switch err := s.watch(b); {
	case err != nil:
		w.lose(s, err)
	case s.t.e.closing.Load():
		w.endContexts(s)
	}
}

// lose ends the whole since a part has ended. What is left of it stays until Release, as a lease that
// was evicted, but is given back when a TTL has passed: the holder may be dead.
func (w *Whole) lose(s *Lease, err error) {
	switch kept := s.t.req.Hold > 0; {
	case errors.Is(err, ErrLost):
		err = PartError(s.t.r.Name, err)
	case s.t.e.closing.Load() && kept: // it goes on without its client
		w.End(PartError(s.t.r.Name, ErrClosed))
		return
	case s.t.e.closing.Load():
		err = fmt.Errorf("%w: %w", ErrLost, PartError(s.t.r.Name, ErrClosed))
	default:
		err = fmt.Errorf("%w: %s was released alone", ErrLost, oneline.Name(s.t.r.Name))
	}
	if !w.End(err) {
		return
	}
	for _, p := range w.Parts() {
		if p.Err() == nil {
			p.t.e.Background(func() { w.abandon(p) })
		}
	}
}

// abandon gives a part back that the holder does not release.
func (w *Whole) abandon(p *Lease) {
	timer := time.NewTimer(min(p.remaining(), p.t.e.TTL()))
	defer timer.Stop()
	select {
	case <-w.given:
		return
	case <-timer.C:
	case <-p.t.e.ctx.Done():
		if p.t.req.Hold == 0 {
			return // Close waits for the functions of Do, and gives it back
		}
	}
	p.releaseWhileWorking(w.why())
}

// End ends the whole with err, and ends the bound contexts. It reports whether the holder had
// it until now.
func (w *Whole) End(err error) bool {
	w.mu.Lock()
	if w.ending.why != nil {
		w.mu.Unlock()
		return false
	}
	w.ending.end(err)
	first, begun := w.ending.bound.takeAll(), w.begun
	w.mu.Unlock()
	first.end(err)
	return begun
}

// endContexts ends the bound contexts: a part's client is being closed.
func (w *Whole) endContexts(s *Lease) {
	why := PartError(s.t.r.Name, ErrClosed)
	w.mu.Lock()
	w.closed = why
	first := w.ending.bound.takeAll()
	w.mu.Unlock()
	first.end(why)
}

// Begin gives it to its holder, unless a part was lost.
func (w *Whole) Begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun = w.ending.why == nil
	return w.begun
}

// ask notes that another asks for a part. The mutex of a ticket may be held.
func (w *Whole) ask() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = true
	w.ending.ask()
}

// Release gives up all parts that are held. If it is not clean, the next holders are told that work may be half done.
// Called again, it returns the same.
func (w *Whole) Release(clean bool) error {
	return w.once.do(func() error { return w.releaseOnce(clean) })
}

func (w *Whole) releaseOnce(clean bool) error {
	ended := w.Err()
	if ended == nil {
		w.End(ErrReleased)
		ended = w.why()
	}
	if ended == ErrReleased {
		ended = nil
	}
	close(w.given)
	errs := make([]error, len(w.got))
	<-w.ReleaseParts(func(i int, s *Lease) {
		errs[i] = s.Release(clean && ended == nil)
		s.endOverrunLater()
	})
	var all error
	for i, err := range errs {
		switch {
		case err == nil:
		case all == nil:
			all = PartError(w.got[i].r.Name, err)
		default:
			all = fmt.Errorf("%w; %w", all, PartError(w.got[i].r.Name, err))
		}
	}
	switch {
	case ended == nil && errors.Is(all, ErrLost):
		w.mu.Lock()
		w.ending.why = all
		w.mu.Unlock()
	case ended != nil && !errors.Is(all, ErrLost):
		return ended // such as of a part that was released alone
	}
	return all
}

// ReleaseParts calls release for each part that was acquired, in the reverse order: those of one
// client one after the other, and beside those of others, since a backend that does not answer is
// to hold up none of another. The result is closed when that is done.
func (w *Whole) ReleaseParts(release func(i int, s *Lease)) <-chan struct{} {
	w.mu.Lock()
	order := slices.Clone(w.order)
	w.mu.Unlock()
	slices.Reverse(order)
	of := map[*Engine][]int{}
	for _, i := range order {
		e := w.got[i].t.e
		of[e] = append(of[e], i)
	}
	var wg sync.WaitGroup
	for e, parts := range of {
		wg.Add(1)
		run := func() {
			defer wg.Done()
			for _, i := range parts {
				release(i, w.got[i])
			}
		}
		if !e.Background(run) {
			run() // the client is closed: this takes no time
		}
	}
	left := make(chan struct{})
	go func() {
		wg.Wait()
		close(left)
	}()
	return left
}

// checkParts finds parts that have ended by now.
func (w *Whole) checkParts() {
	for _, p := range w.Parts() {
		if err := p.Err(); err != nil {
			w.lose(p, err)
		}
	}
}

// Closed is an error once a client of a part is being closed.
func (w *Whole) Closed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// why is err without a look at the parts.
func (w *Whole) why() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ending.why
}

func (w *Whole) Parts() (parts []*Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.got {
		if p != nil {
			parts = append(parts, p)
		}
	}
	return parts
}

func (w *Whole) Err() error {
	w.checkParts()
	return w.why()
}

func (w *Whole) Done() <-chan struct{} {
	w.checkParts()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ending.ended()
}

func (w *Whole) Revoked() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ending.askedFor(w.asked)
}

func (w *Whole) Bind(b *Binding) error {
	w.checkParts()
	if b.Work {
		for _, p := range w.Parts() {
			p.enterWork()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	b.entered = b.Work
	if err := cmp.Or(w.ending.why, w.closed); err != nil {
		return err
	}
	w.ending.bound.add(b)
	return nil
}

func (w *Whole) Unbind(b *Binding) {
	w.mu.Lock()
	w.ending.bound.remove(b)
	entered := b.entered
	b.entered = false
	w.mu.Unlock()
	if entered {
		for _, p := range w.Parts() {
			p.leaveWork()
		}
	}
}

// SkipAtLeast has AtLeast keep nobody out: no work was done. A lease that is nested leaves that to
// the others of its grant.
func (l *Lease) SkipAtLeast() {
	l.t.q.mu.Lock()
	defer l.t.q.unlock()
	if l.g.leases == 1 {
		l.t.keep = 0
	}
}

// PartError is the error of a part, with its name.
func PartError(name string, err error) error { return fmt.Errorf("%s: %w", oneline.Name(name), err) }
