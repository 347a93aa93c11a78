package interlock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// caller is one call of Acquire, and later its lease, as observers are told of it. Nil, without observers: then it
// tells nothing.
type caller struct {
	ctx   context.Context // the user's
	lock  *Lock
	id    uint64
	began time.Time

	// Of the goroutine that calls.
	waited bool      // EventWaiting was delivered, or there is none, since it is a try
	logged time.Time // when EventRetry was logged last

	mu    sync.Mutex
	has   bool    // EventAcquired was delivered, or there is none
	later []Event // for then
}

// callers is how many there were, of all clients: one observer may have several.
var callers atomic.Uint64

// calledBy begins a call.
func (l *Lock) calledBy(ctx context.Context, try bool) *caller {
	if !l.c.cfg.observed() {
		return nil
	}
	return &caller{ctx: ctx, lock: l, id: callers.Add(1), began: time.Now(), waited: try}
}

// emit tells of what happened to the call.
func (k *caller) emit(e Event) {
	if k != nil {
		k.deliver(k.ctx, e)
	}
}

func (k *caller) deliver(ctx context.Context, e Event) {
	e.ID, e.Name, e.LockKind = k.id, k.lock.cfg.Name, string(k.lock.cfg.Kind)
	if e.Units == 0 {
		e.Units = k.lock.cfg.Units
	}
	k.lock.c.emit(ctx, e)
}

// ends tells how the call has ended.
func (k *caller) ends(how EventKind, lease *Lease, err error) {
	switch {
	case k == nil:
		return
	case err != nil:
		k.emit(Event{Kind: EventGaveUp, Took: time.Since(k.began), Err: err})
		return
	case how != "":
		k.emit(Event{Kind: how, Token: lease.Token(), Took: time.Since(k.began)})
	}
	k.acquired()
}

// acquired is called when EventAcquired was delivered, or if there is none.
func (k *caller) acquired() {
	if k == nil {
		return
	}
	k.mu.Lock()
	k.has = true
	later := k.later
	k.later = nil
	k.mu.Unlock()
	for _, e := range later {
		k.deliver(context.WithoutCancel(k.ctx), e)
	}
}

// waits is called by each step in which the call waits.
func (k *caller) waits() {
	if k != nil && !k.waited {
		k.waited = true
		k.emit(Event{Kind: EventWaiting})
	}
}

// retries is logged once a second at most: a backend that is away fails every try.
func (k *caller) retries(err error) {
	if k == nil {
		return
	}
	k.waits()
	now := time.Now()
	quiet := now.Sub(k.logged) < time.Second
	if !quiet {
		k.logged = now
	}
	k.emit(Event{Kind: EventRetry, Time: now, Err: err, quiet: quiet})
}

// holding is a lease as the engine knows its holder.
type holding struct{ *Lease }

func (h holding) Waits()             { h.by.waits() }
func (h holding) Retries(err error)  { h.by.retries(err) }
func (h holding) Rejoined(err error) { h.by.emit(Event{Kind: EventRejoined, Err: err}) }

func (h holding) Released(held time.Duration, err error) {
	h.emit(Event{Kind: EventReleased, Took: held, Err: err})
}

func (h holding) Lost(at time.Time, err error) { h.emit(Event{Kind: EventLost, Time: at, Err: err}) }

func (h holding) InDoubt(at time.Time, err error) {
	h.emit(Event{Kind: EventInDoubt, Time: at, Err: err})
}

func (h holding) Overruns(since time.Duration, err error) {
	h.emit(Event{Kind: EventOverrun, Took: since, Err: err})
}

// emit tells of what happened to the lease, also after the end of the context that it was acquired with. A lease can
// end before its acquire has told of it: then this is told after that, or never, if the acquire gave it back.
func (h holding) emit(e Event) {
	k := h.by
	if k == nil {
		return
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Token, e.Units = h.part.Token(), h.part.Units()
	k.mu.Lock()
	has := k.has
	if !has {
		k.later = append(k.later, e)
	}
	k.mu.Unlock()
	if has {
		k.deliver(context.WithoutCancel(k.ctx), e)
	}
}
