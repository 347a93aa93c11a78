package interlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// whole is the lease of [All]: it has a lease of each part. A binding in the lease of each part
// tells it when that ends, and when another asks for the part.
//
// Its mutex is locked under that of a ticket. So nothing is asked of a part while it is held.
type whole struct {
	lease Lease // what its holder has
	lock  *Lock

	once   sync.Once
	given  chan struct{} // closed when Release begins
	result error

	mu        sync.Mutex
	got       []*single // by part; nil: not acquired yet
	order     []int     // of the parts, as they were acquired
	begun     bool      // the holder has it
	inherited bool
	err       error
	done      chan struct{}
	closed    error         // Close of a part's client has ended the bound contexts
	asked     bool          // for a part
	revoked   chan struct{} // made when it is asked for
	bound     bindings
}

func newWhole(l *Lock) *whole {
	w := &whole{lock: l, got: make([]*single, len(l.parts)), given: make(chan struct{}), done: make(chan struct{})}
	w.lease.h = w
	return w
}

// add notes that part i is held. It is called by the goroutine that acquires.
func (w *whole) add(i int, s *single) {
	w.mu.Lock()
	w.got[i] = s
	w.order = append(w.order, i)
	w.mu.Unlock()
	b := &binding{asked: w.ask}
	b.cancel = func(error) { w.partEnded(s, b) }
	w.partEnded(s, b)
	if s.isRevoked() {
		w.ask()
	}
}

// partEnded is called when the contexts that are bound to a part have ended: with its lease, or
// before, when Close begins. It binds b to a lease that has not ended.
func (w *whole) partEnded(s *single, b *binding) {
	switch err := s.watch(b); {
	case err != nil:
		w.lose(s, err)
	case s.isWinding():
		w.wind(s)
	}
}

// lose ends the whole since a part has ended. What is left of it stays until Release, as a lease that
// was evicted, but is given back when a TTL has passed: the holder may be dead.
func (w *whole) lose(s *single, err error) {
	switch kept := s.t.req.Hold > 0; {
	case errors.Is(err, ErrLost):
		err = ofPart(s.Name(), err)
	case s.isWinding() && kept: // it goes on without its client
		w.end(ofPart(s.Name(), ErrClosed))
		return
	case s.isWinding():
		err = fmt.Errorf("%w: %w", ErrLost, ofPart(s.Name(), ErrClosed))
	default:
		err = fmt.Errorf("%w: %s was released alone", ErrLost, printable(s.Name()))
	}
	if !w.end(err) {
		return
	}
	for _, p := range w.parts() {
		if p.Err() == nil {
			p.t.c.background(func() { w.abandon(p) })
		}
	}
}

// abandon gives a part back that the holder does not release.
func (w *whole) abandon(p *single) {
	timer := time.NewTimer(min(p.Remaining(), p.t.c.TTL()))
	defer timer.Stop()
	select {
	case <-w.given:
		return
	case <-timer.C:
	case <-p.t.c.ctx.Done():
		if p.t.req.Hold == 0 {
			return // Close waits for the functions of Do, and gives it back
		}
	}
	p.forsake(w.fate())
}

// end makes err the fate of the whole, and ends the bound contexts. It reports whether the holder had
// it until now.
func (w *whole) end(err error) bool {
	w.mu.Lock()
	if w.err != nil {
		w.mu.Unlock()
		return false
	}
	w.err = err
	close(w.done)
	first, begun := w.bound.takeAll(), w.begun
	w.mu.Unlock()
	first.end(failed("hold", w.lock.name, err))
	return begun
}

// wind ends the bound contexts: a part's client is being closed.
func (w *whole) wind(s *single) {
	why := ofPart(s.Name(), ErrClosed)
	w.mu.Lock()
	w.closed = why
	first := w.bound.takeAll()
	w.mu.Unlock()
	first.end(failed("hold", w.lock.name, why))
}

// begin gives it to its holder, unless a part was lost.
func (w *whole) begin() bool {
	inherited := slices.ContainsFunc(w.parts(), (*single).Inherited)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun, w.inherited = w.err == nil, inherited
	return w.begun
}

// ask notes that another asks for a part. The mutex of a ticket may be held.
func (w *whole) ask() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.asked && w.revoked != nil {
		close(w.revoked)
	}
	w.asked = true
}

func (w *whole) release(clean bool) error {
	w.once.Do(func() { w.result = failed("release", w.lock.name, w.releaseOnce(clean)) })
	return w.result
}

func (w *whole) releaseOnce(clean bool) error {
	ended := w.Err()
	if ended == nil {
		w.end(ErrReleased)
		ended = w.fate()
	}
	if ended == ErrReleased {
		ended = nil
	}
	close(w.given)
	errs := make([]error, len(w.got))
	<-w.releaseParts(func(i int, s *single) {
		errs[i] = s.release(clean && ended == nil)
		s.settle()
	})
	var all error
	for i, err := range errs {
		switch {
		case err == nil:
		case all == nil:
			all = ofPart(w.lock.parts[i].name, err)
		default:
			all = fmt.Errorf("%w; %w", all, ofPart(w.lock.parts[i].name, err))
		}
	}
	switch {
	case ended == nil && errors.Is(all, ErrLost):
		w.mu.Lock()
		w.err = all
		w.mu.Unlock()
	case ended != nil && !errors.Is(all, ErrLost):
		return ended // such as of a part that was released alone
	}
	return all
}

// releaseParts calls release for each part that was acquired, in the reverse order: those of one
// client one after the other, and beside those of others, since a backend that does not answer is
// to hold up none of another. The result is closed when that is done.
func (w *whole) releaseParts(release func(i int, s *single)) <-chan struct{} {
	w.mu.Lock()
	order := slices.Clone(w.order)
	w.mu.Unlock()
	slices.Reverse(order)
	of := map[*Client][]int{}
	for _, i := range order {
		c := w.got[i].t.c
		of[c] = append(of[c], i)
	}
	var wg sync.WaitGroup
	for c, parts := range of {
		wg.Add(1)
		run := func() {
			defer wg.Done()
			for _, i := range parts {
				release(i, w.got[i])
			}
		}
		if !c.background(run) {
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

// judge finds parts that have ended by now.
func (w *whole) judge() {
	for _, p := range w.parts() {
		if err := p.Err(); err != nil {
			w.lose(p, err)
		}
	}
}

// isClosed is an error once a client of a part is being closed.
func (w *whole) isClosed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// fate is Err without a look at the parts.
func (w *whole) fate() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *whole) parts() (parts []*single) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.got {
		if p != nil {
			parts = append(parts, p)
		}
	}
	return parts
}

func (w *whole) any(is func(*single) bool) bool { return slices.ContainsFunc(w.parts(), is) }

func (w *whole) ID() string           { return "" }
func (w *whole) Token() uint64        { return 0 }
func (w *whole) BackendToken() uint64 { return 0 }
func (w *whole) Name() string         { return w.lock.name }
func (w *whole) Inherited() bool      { return w.inherited }
func (w *whole) InDoubt() bool        { return w.Err() == nil && w.any((*single).InDoubt) }
func (w *whole) Exclusive() bool {
	return !w.any(func(p *single) bool { return !p.Exclusive() })
}

func (w *whole) Err() error {
	w.judge()
	return w.fate()
}

func (w *whole) Done() <-chan struct{} {
	w.judge()
	return w.done
}

func (w *whole) Deadline() time.Time {
	first := slices.MinFunc(w.parts(), func(a, b *single) int { return a.Deadline().Compare(b.Deadline()) })
	return first.Deadline()
}

func (w *whole) Remaining() time.Duration {
	if w.Err() != nil {
		return 0
	}
	left := make([]time.Duration, 0, len(w.got))
	for _, p := range w.parts() {
		left = append(left, p.Remaining())
	}
	return slices.Min(left)
}

func (w *whole) Revoked() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.revoked == nil {
		w.revoked = make(chan struct{})
		if w.asked {
			close(w.revoked)
		}
	}
	return w.revoked
}

// Liveness has the files of each session once.
func (w *whole) Liveness() (files []*os.File) {
	for _, p := range w.parts() {
		for _, f := range p.Liveness() {
			if !slices.Contains(files, f) {
				files = append(files, f)
			}
		}
	}
	return files
}

// Extend extends each part, if all have a fixed end.
func (w *whole) Extend(ctx context.Context, d time.Duration) error {
	for _, p := range w.parts() {
		if p.t.req.Hold == 0 {
			return failed("extend", w.lock.name, ofPart(p.Name(), errNotFixed))
		}
	}
	for _, p := range w.parts() {
		if err := p.Extend(ctx, d); err != nil {
			return failed("extend", w.lock.name, ofPart(p.Name(), err))
		}
	}
	return failed("extend", w.lock.name, w.Err())
}

// Downgrade downgrades the parts that are read-write locks.
func (w *whole) Downgrade(ctx context.Context) error {
	found := false
	for _, p := range w.parts() {
		if p.lock.kind != driver.RWMutex {
			continue
		}
		found = true
		if err := p.Downgrade(ctx); err != nil {
			return failed("downgrade", w.lock.name, ofPart(p.Name(), err))
		}
	}
	if !found {
		return failed("downgrade", w.lock.name, driver.Invalid(errors.New("only a read-write lock has readers, and this has none")))
	}
	return failed("downgrade", w.lock.name, w.Err())
}

func (w *whole) Permits() int64 { return 0 }

func (w *whole) KeepPermits(context.Context, int64) error {
	return failed("keep permits", w.lock.name, driver.Invalid(errors.New("the parts of All have permits, each of which gives back its own (see Lease.Parts)")))
}

// carry carries the parts, too, so that each is found as if it were acquired alone.
func (w *whole) carry(ctx context.Context) context.Context {
	for _, p := range w.parts() {
		ctx = p.carry(ctx)
	}
	return carry(ctx, &w.lease)
}

func (w *whole) bind(b *binding) error {
	w.judge()
	if b.work {
		for _, p := range w.parts() {
			p.enterWork()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	b.entered = b.work
	if err := cmp.Or(w.err, w.closed); err != nil {
		return err
	}
	w.bound.add(b)
	return nil
}

func (w *whole) unbind(b *binding) {
	w.mu.Lock()
	w.bound.remove(b)
	entered := b.entered
	b.entered = false
	w.mu.Unlock()
	if entered {
		for _, p := range w.parts() {
			p.leaveWork()
		}
	}
}

func (w *whole) enterBody() error {
	parts := w.parts()
	for i, p := range parts {
		if err := p.enterBody(); err != nil {
			for _, q := range parts[:i] {
				q.leaveBody()
			}
			return err
		}
	}
	return nil
}

func (w *whole) leaveBody() {
	for _, p := range w.parts() {
		p.leaveBody()
	}
}

// holds reports whether it has all that another lock is made of.
func (w *whole) holds(l *Lock) bool {
	return w.Err() == nil && !slices.ContainsFunc(l.parts, func(p *Lock) bool {
		return !slices.ContainsFunc(w.parts(), func(s *single) bool {
			q := s.lock
			return q.c == p.c && q.queue == p.queue && q.kind == p.kind && s.units() >= p.units
		})
	})
}
