package exchange

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
)

// listener receives the events of the client's mailbox while calls of Await, Follow or Watch expect some, or
// a ticket is held for a while, and for some time after that. As long as it cannot, it polls: a resync now
// and then, at first often and then seldom.
type listener struct {
	mu      sync.Mutex
	calls   int           // that expect events
	runs    bool          // its tasks run
	stop    func()        // ends them
	idle    *time.Timer   // set while no call expects events
	hears   bool          // no event that is sent from now on can be missed
	changed chan struct{} // closed when calls become some or none, or hears changes
	newCall bool          // one has begun since the last poll
	maxPoll time.Duration // between polls
}

const (
	idleTime    = 10 * time.Second // for how long it goes on for no call
	minPoll     = 5 * time.Millisecond
	maxPoll     = 5 * time.Second
	pollShare   = 10 // polls take at most one part in so many of the time
	longestLook = 5 * time.Second
)

func (l *listener) init() {
	l.changed, l.maxPoll, l.stop = make(chan struct{}), maxPoll, func() {}
	l.idle = time.AfterFunc(idleTime, l.endIfIdle)
	l.idle.Stop()
}

// pollAtLeast is called for each new session: polls are not rarer than its heartbeats.
func (l *listener) pollAtLeast(every time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.maxPoll = max(minPoll, min(l.maxPoll, every))
}

// lookTimeout is how long a look may take whose connection may lead nowhere: one TTL of the shortest session.
func (l *listener) lookTimeout() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return min(3*l.maxPoll, longestLook)
}

// change wakes the tasks. The mutex is held.
func (l *listener) change() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// expectEvents has the listener run until done is called, and a while after that.
func (d *Driver) expectEvents() (done func()) {
	l := &d.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	l.newCall = true
	if l.calls == 1 {
		l.idle.Stop()
	}
	if !l.runs {
		l.runs = true
		d.background(d.runListener)
	}
	if l.calls == 1 || !l.hears {
		l.change()
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.calls--; l.calls == 0 {
			l.idle.Reset(idleTime)
			l.change()
		}
	}
}

// heedAfter is how long a ticket is held before its client listens: twice that at most. It spares those who
// hold for moments a connection and a subscription, which may cost others something, too.
const heedAfter = 50 * time.Millisecond

// heed has the listener run soon, and while tickets are held: a demand is told by an event. It is called for each
// grant; Driver.mu is held.
func (d *Driver) heed() {
	if !d.heeding && !d.traits.Listens {
		d.heeding = true
		time.AfterFunc(heedAfter, func() { d.background(d.heedHolders) })
	}
}

func (d *Driver) heedHolders(ctx context.Context) {
	pause := heedAfter
	for {
		some, long := d.holds()
		if long && pause == heedAfter {
			defer d.expectEvents()()
			pause = idleTime
		}
		if !some {
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// holds reports whether tickets are held, and whether one was when it was called before. If none is, the next
// grant calls heed.
func (d *Driver) holds() (some, long bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.entries {
		if e.state == held {
			some, long, e.heeded = true, long || e.heeded, true
		}
	}
	d.heeding = some
	return some, long
}

// runListener listens and polls until no call has expected events for some time.
func (d *Driver) runListener(ctx context.Context) {
	l := &d.listener
	for again := true; again && ctx.Err() == nil; {
		run, stop := context.WithCancel(ctx)
		l.mu.Lock()
		l.stop = stop
		if l.calls == 0 { // the timer may have fired just before
			l.idle.Reset(idleTime)
		}
		l.mu.Unlock()
		var listening sync.WaitGroup
		listening.Go(func() { d.listen(run) })
		d.poll(run)
		listening.Wait()
		l.mu.Lock()
		l.runs = l.calls > 0
		again = l.runs
		l.mu.Unlock()
	}
}

// endIfIdle is called when no call has expected events for some time.
func (l *listener) endIfIdle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == 0 {
		l.stop()
	}
}

// listen has the store listen, again whenever it loses its connection.
func (d *Driver) listen(ctx context.Context) {
	var pauses backoff.Backoff
	for ctx.Err() == nil {
		began := time.Now()
		d.exchanges.Add(1)
		up, down := context.WithCancel(ctx)
		err := d.store.Listen(ctx, d.mailbox, func() {
			d.listener.nowHears(true)
			d.background(func(context.Context) { d.resyncAll(up) }) // what was sent before was missed
		}, d.receive)
		down()
		d.listener.nowHears(false)
		if errors.Is(err, errors.ErrUnsupported) {
			return
		}
		if time.Since(began) > time.Second {
			pauses = backoff.Backoff{}
		}
		_ = pauses.Sleep(ctx)
	}
}

func (l *listener) nowHears(hears bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hears != hears {
		l.hears = hears
		l.change()
	}
}

// poll makes resyncs, less and less often, while the listener hears nothing and calls expect
// events. A new call brings the next one nearer. Where a resync takes long, many clients may be polling, and each
// poll makes them slower for all.
func (d *Driver) poll(ctx context.Context) {
	l := &d.listener
	pause := minPoll
	var due, notBefore time.Time // the next one; the zero time: none is planned, or it may come at any time
	for {
		l.mu.Lock()
		rest, changed := l.hears || l.calls == 0, l.changed
		if l.newCall {
			pause, l.newCall = minPoll, false
		}
		longest := l.maxPoll
		l.mu.Unlock()
		var timer <-chan time.Time
		if rest {
			due = time.Time{}
		} else {
			next := time.Now().Add(min(max(pause/2+rand.N(pause), time.Until(notBefore)), longest))
			if due.IsZero() || next.Before(due) {
				due = next
			}
			timer = time.After(time.Until(due))
		}
		select {
		case <-timer:
			began := time.Now()
			_ = d.resync(ctx, false) // if it fails, the next poll repeats it
			due, notBefore = time.Time{}, time.Now().Add(pollShare*time.Since(began))
			pause = min(pause*3/2, longest)
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// resyncAll also looks at holders: a demand may have been missed. It repeats what fails: as long
// as the client listens, it does not poll, and the next heartbeat may be far.
func (d *Driver) resyncAll(ctx context.Context) {
	var pauses backoff.Backoff
	for d.resync(ctx, true) != nil && pauses.Sleep(ctx) == nil {
	}
}

// resync looks at all waiters, and has whatever is followed or watched read again.
func (d *Driver) resync(ctx context.Context, holders bool) error {
	d.mu.Lock()
	d.resyncs++
	refs := map[*session][]Ref{}
	for _, e := range d.entries {
		if e.state == waiting || e.state == held && holders {
			refs[e.s] = append(refs[e.s], e.ref())
		}
	}
	d.mu.Unlock()
	d.topics.AllChanged()
	ctx, cancel := context.WithTimeout(ctx, d.listener.lookTimeout())
	defer cancel()
	for s, all := range refs {
		for len(all) > 0 && !s.isOver() {
			part := all[:min(len(all), d.traits.PerRenew)]
			all = all[len(part):]
			if err := s.look(ctx, part...); err != nil && !driver.IsPermanent(err) {
				return err
			}
		}
	}
	return nil
}
