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

// wake is what wakes those who wait: news from the database, for which one
// connection listens as long as somebody waits, and a little longer; while there is
// none, a look now and then, which is seldom soon.
type wake struct {
	mu      sync.Mutex
	waiting int           // calls that wait
	busy    bool          // the tasks run
	up      bool          // nothing that is sent can be missed
	never   bool          // this database cannot be listened to
	changed chan struct{} // closed when one of these changes
	most    time.Duration // between looks
	fresh   bool          // somebody has begun to wait since the last look
}

const (
	linger      = 10 * time.Second // for how long it listens for nobody
	leastLook   = 5 * time.Millisecond
	share       = 10 // looks take at most one part in so many of the time
	mostLook    = 5 * time.Second
	lookTimeout = 5 * time.Second
)

func (w *wake) init() { w.changed, w.most = make(chan struct{}), mostLook }

// beat bounds the time between looks by that between heartbeats.
func (w *wake) beat(every time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.most = max(leastLook, min(w.most, every))
}

// change wakes whoever looks at w, whose mutex is held.
func (w *wake) change() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// attend has the client woken by news until leave is called.
func (d *Driver) attend() (leave func()) {
	w := &d.wake
	w.mu.Lock()
	w.waiting++
	w.fresh = true
	start := !w.busy
	w.busy = true
	if w.waiting == 1 || !w.up {
		w.change()
	}
	w.mu.Unlock()
	if start {
		d.background(d.keepWatch)
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.waiting--; w.waiting == 0 {
			w.change()
		}
	}
}

// keepWatch listens and looks, until nobody has waited for some time.
func (d *Driver) keepWatch(ctx context.Context) {
	w := &d.wake
	for ctx.Err() == nil {
		watch, stop := context.WithCancel(ctx)
		var both sync.WaitGroup
		both.Go(func() { d.listen(watch) })
		both.Go(func() { d.poll(watch) })
		w.idle(watch)
		stop()
		both.Wait()
		w.mu.Lock()
		if w.waiting == 0 {
			w.busy = false
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
	}
}

// idle returns when nobody has waited for some time.
func (w *wake) idle(ctx context.Context) {
	timer := time.NewTimer(linger)
	defer timer.Stop()
	for before := 1; ; {
		w.mu.Lock()
		waiting, changed := w.waiting, w.changed
		w.mu.Unlock()
		if before > 0 || waiting > 0 {
			timer.Reset(linger)
		}
		before = waiting
		select {
		case <-changed:
		case <-ctx.Done():
			return
		case <-timer.C:
			if waiting == 0 {
				return
			}
		}
	}
}

// listen keeps a connection for news.
func (d *Driver) listen(ctx context.Context) {
	var pauses backoff.Backoff
	for ctx.Err() == nil {
		began := time.Now()
		d.exchanges.Add(1)
		up, down := context.WithCancel(ctx)
		err := d.store.Listen(ctx, d.channel, func() {
			d.wake.is(true, false)
			d.background(func(context.Context) { d.repairAll(up) }) // what was sent before was missed
		}, d.hear)
		down()
		never := errors.Is(err, errors.ErrUnsupported)
		d.wake.is(false, never)
		if never {
			return
		}
		if time.Since(began) > time.Second {
			pauses = backoff.Backoff{}
		}
		_ = pauses.Sleep(ctx)
	}
}

func (w *wake) is(up, never bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.up != up {
		w.up = up
		w.change()
	}
	w.never = w.never || never
}

// poll looks at what waits, less and less often, while nothing listens. Where exchanges
// take long, many may be looking: each of them would make it slower for all.
func (d *Driver) poll(ctx context.Context) {
	w := &d.wake
	pause := leastLook
	for {
		w.mu.Lock()
		rest, changed := w.up || w.waiting == 0, w.changed
		if w.fresh {
			pause, w.fresh = leastLook, false
		}
		most := w.most
		w.mu.Unlock()
		var timer <-chan time.Time
		if !rest {
			slow := share * time.Duration(d.took.Load())
			timer = time.After(min(max(pause/2+rand.N(pause), slow), most))
		}
		select {
		case <-timer:
			_ = d.repair(ctx, false) // the next look repeats it
			pause = min(pause*3/2, most)
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// repairAll also looks at what is held: somebody may want it. It repeats what fails: as long
// as the client listens, nobody else looks before the next heartbeat.
func (d *Driver) repairAll(ctx context.Context) {
	var pauses backoff.Backoff
	for d.repair(ctx, true) != nil && pauses.Sleep(ctx) == nil {
	}
}

// repair looks at every ticket that waits and has whatever is followed read again,
// after news may have been missed.
func (d *Driver) repair(ctx context.Context, alsoHeld bool) error {
	d.mu.Lock()
	d.repairs++
	open := map[*session][]Ref{}
	for _, p := range d.places {
		if p.state == waiting || p.state == unknown && p.sent && p.joining == 0 || p.state == held && alsoHeld {
			open[p.s] = append(open[p.s], p.ref())
		}
	}
	d.mu.Unlock()
	d.topics.AllChanged()
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	for s, all := range open {
		for len(all) > 0 && !s.isOver() {
			part := all[:min(len(all), perLook)]
			all = all[len(part):]
			if err := s.lookAt(ctx, part); err != nil && !driver.IsPermanent(err) {
				return err
			}
		}
	}
	return nil
}
