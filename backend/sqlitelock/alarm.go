package sqlitelock

import (
	"context"
	"sync"
	"time"
)

// alarm sweeps when something ends by itself, as long as somebody waits. The
// moment is put off by each Renew, so while all sessions are renewed and have
// similar TTLs it never goes off. Keep tells who is next of an end of its own.
type alarm struct {
	d *Driver

	mu      sync.Mutex
	waiters int
	next    moment // 0: not known
	timer   *time.Timer
	stopped bool
}

func (a *alarm) attend() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiters++; a.waiters == 1 {
		a.set()
	}
}

func (a *alarm) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiters--; a.waiters == 0 && a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}

// expect takes note of when something ends unless it is renewed.
func (a *alarm) expect(next moment) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next = next
	if a.waiters > 0 {
		a.set()
	}
}

// sooner takes note of an end that may come before all that is known of.
func (a *alarm) sooner(end moment) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.next == 0 || end >= a.next {
		return
	}
	a.next = end
	if a.waiters > 0 {
		a.set()
	}
}

func (a *alarm) set() {
	if a.stopped {
		return
	}
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
	if a.next == never {
		return
	}
	in := max(a.next.sub(a.d.clock.now()), 0) + time.Millisecond
	if a.next == 0 {
		in = 0
	}
	a.timer = time.AfterFunc(in, a.ring)
}

func (a *alarm) ring() {
	a.mu.Lock()
	on := !a.stopped && a.waiters > 0
	a.mu.Unlock()
	if !on {
		return
	}
	a.d.background(func(ctx context.Context) {
		if err := a.d.sweep(ctx); err != nil {
			a.expect(a.d.clock.now().add(time.Second)) // the file is stuck: again soon
		}
	})
}

func (a *alarm) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	if a.timer != nil {
		a.timer.Stop()
	}
}
