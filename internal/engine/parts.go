package engine

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/interlock-go/interlock/internal/oneline"
)

// parts are the leases of All that one lease consists of. A binding in the lease of each part tells when that ends, and
// when another asks for the part.
type parts struct {
	given chan struct{} // closed when Release begins

	guard           // of the lease, too
	got    []*Lease // by part; nil: not acquired yet
	order  []int    // of the parts, as they were acquired
	begun  bool     // the holder has it
	closed error    // Close of a part's client has ended the bound contexts
}

// InitParts makes it the lease of so many parts.
func (l *Lease) InitParts(n int) {
	l.parts = &parts{got: make([]*Lease, n), given: make(chan struct{})}
}

// Parts are the leases that are held, in the order of the arguments of All. A lease without parts is its own.
func (l *Lease) Parts() []*Lease {
	if l.parts == nil {
		return []*Lease{l}
	}
	return l.parts.all()
}

func (w *parts) all() (all []*Lease) {
	w.mu.Lock()
	defer w.unlock()
	for _, p := range w.got {
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// Add notes that part i is held. It is called by the goroutine that acquires.
func (l *Lease) Add(i int, p *Lease) {
	l.locked(func() {
		l.parts.got[i] = p
		l.parts.order = append(l.parts.order, i)
	})
	b := &Binding{Asked: func() { l.locked(l.ask) }}
	b.Ended = func(error) { l.watch(p, b) }
	l.watch(p, b)
}

// Part is part i; nil if it is not held. It is called by the goroutine that acquires.
func (l *Lease) Part(i int) *Lease { return l.parts.got[i] }

// watch binds b to a part that has not ended. It is called again when the contexts that are bound to the part have ended:
// with its lease, or before, when Close begins.
func (l *Lease) watch(p *Lease, b *Binding) {
	var ended, closed error
	p.checked(func() {
		if ended, closed = p.why, p.closed(); ended == nil {
			p.add(b)
		}
	})
	switch {
	case ended != nil:
		l.losePart(p, ended)
	case closed != nil:
		l.locked(func() {
			l.parts.closed = PartError(p.r.Name, closed)
			l.endBound(l.parts.closed)
		})
	}
}

// checkParts finds parts that have ended by now.
func (l *Lease) checkParts() {
	for _, p := range l.Parts() {
		if err := p.Err(); err != nil {
			l.losePart(p, err)
		}
	}
}

// losePart ends the lease since a part has ended. What is left of it stays until Release, as a lease that was evicted, but
// is given back when a TTL has passed: the holder may be dead.
func (l *Lease) losePart(p *Lease, err error) {
	switch closing := p.closed() != nil; {
	case errors.Is(err, ErrLost):
		err = PartError(p.r.Name, err)
	case closing && p.Fixed(): // it goes on without its client
		l.End(PartError(p.r.Name, ErrClosed))
		return
	case closing:
		err = fmt.Errorf("%w: %w", ErrLost, PartError(p.r.Name, ErrClosed))
	default:
		err = fmt.Errorf("%w: %s was released alone", ErrLost, oneline.Name(p.r.Name))
	}
	if !l.End(err) {
		return
	}
	for _, p := range l.Parts() {
		if p.Err() == nil {
			p.t.e.Background(func() { l.abandon(p) })
		}
	}
}

// abandon gives a part back that the holder does not release.
func (l *Lease) abandon(p *Lease) {
	timer := time.NewTimer(min(p.Remaining(), p.t.e.TTL()))
	defer timer.Stop()
	select {
	case <-l.parts.given:
		return
	case <-timer.C:
	case <-p.t.e.ctx.Done():
		if p.t.req.Hold == 0 {
			return // Close waits for the functions of Do, and gives it back
		}
	}
	why := l.Err()
	_ = p.Release(false)
	p.locked(func() {
		if p.works > 0 {
			p.overrun(why)
		}
	})
}

// End ends a lease with parts. It reports whether the holder had it until now.
func (l *Lease) End(err error) (had bool) {
	l.locked(func() {
		if l.why == nil {
			l.end(err)
			had = l.parts.begun
		}
	})
	return had
}

// Begin gives it to its holder, unless a part was lost.
func (l *Lease) Begin() (begun bool) {
	l.locked(func() {
		begun = l.why == nil
		l.parts.begun = begun
	})
	return begun
}

// releaseAll gives up all parts that are held.
func (l *Lease) releaseAll(clean bool) error {
	ended := l.Err()
	if ended == nil {
		l.End(ErrReleased)
		l.locked(func() { ended = l.why })
	}
	if ended == ErrReleased {
		ended = nil
	}
	close(l.parts.given)
	got := l.parts.got
	errs := make([]error, len(got))
	<-l.ReleaseParts(func(i int, p *Lease) {
		errs[i] = p.Release(clean && ended == nil)
		p.locked(p.endOverrun)
	})
	var all error
	for i, err := range errs {
		switch {
		case err == nil:
		case all == nil:
			all = PartError(got[i].r.Name, err)
		default:
			all = fmt.Errorf("%w; %w", all, PartError(got[i].r.Name, err))
		}
	}
	switch {
	case ended == nil:
		return l.lostAfterAll(all)
	case !errors.Is(all, ErrLost):
		return ended // such as of a part that was released alone
	}
	return all
}

// ReleaseParts calls release for each part that was acquired, in the reverse order: those of one
// client one after the other, and beside those of others, since a backend that does not answer is
// to hold up none of another. The result is closed when that is done.
func (l *Lease) ReleaseParts(release func(i int, p *Lease)) <-chan struct{} {
	w := l.parts
	w.mu.Lock()
	order := slices.Clone(w.order)
	w.unlock()
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

// Closed is an error once a client of a part is being closed.
func (l *Lease) Closed() (err error) {
	l.locked(func() { err = l.parts.closed })
	return err
}

// SkipAtLeast has AtLeast keep nobody out: no work was done. A lease that is nested leaves that to
// the others of its grant.
func (l *Lease) SkipAtLeast() {
	l.locked(func() {
		if l.g.leases == 1 {
			l.t.keep = 0
		}
	})
}

// PartError is the error of a part, with its name.
func PartError(name string, err error) error { return fmt.Errorf("%s: %w", oneline.Name(name), err) }
