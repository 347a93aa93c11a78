package interlock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// span is one call of Acquire, and later its lease, as observers are told of it. Nil, without observers: then it
// tells nothing.
type span struct {
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

// spans is how many there were, of all clients: one observer may have several.
var spans atomic.Uint64

// newSpan begins a call.
func (l *Lock) newSpan(ctx context.Context, try bool) *span {
	if !l.c.cfg.observed() {
		return nil
	}
	return &span{ctx: ctx, lock: l, id: spans.Add(1), began: time.Now(), waited: try}
}

// emit tells of what happened to the call.
func (s *span) emit(e Event) {
	if s != nil {
		s.deliver(s.ctx, e)
	}
}

func (s *span) deliver(ctx context.Context, e Event) {
	e.ID, e.Name, e.LockKind = s.id, s.lock.cfg.Name, string(s.lock.cfg.Kind)
	if e.Units == 0 {
		e.Units = s.lock.cfg.Units
	}
	s.lock.c.emit(ctx, e)
}

// ends tells how the call has ended.
func (s *span) ends(how EventKind, lease *Lease, err error) {
	switch {
	case s == nil:
		return
	case err != nil:
		s.emit(Event{Kind: EventGaveUp, Took: time.Since(s.began), Err: err})
		return
	case how != "":
		s.emit(Event{Kind: how, Token: lease.Token(), Took: time.Since(s.began)})
	}
	s.acquired()
}

// acquired is called when EventAcquired was delivered, or if there is none.
func (s *span) acquired() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.has = true
	later := s.later
	s.later = nil
	s.mu.Unlock()
	for _, e := range later {
		s.deliver(context.WithoutCancel(s.ctx), e)
	}
}

// waits is called by each step in which the call waits.
func (s *span) waits() {
	if s != nil && !s.waited {
		s.waited = true
		s.emit(Event{Kind: EventWaiting})
	}
}

// retries is logged once a second at most: a backend that is away fails every try.
func (s *span) retries(err error) {
	if s == nil {
		return
	}
	s.waits()
	now := time.Now()
	quiet := now.Sub(s.logged) < time.Second
	if !quiet {
		s.logged = now
	}
	s.emit(Event{Kind: EventRetry, Time: now, Err: err, quiet: quiet})
}

// holding is a lease as the engine knows its holder.
type holding struct{ *Lease }

func (h holding) Waits()             { h.span.waits() }
func (h holding) Retries(err error)  { h.span.retries(err) }
func (h holding) Rejoined(err error) { h.span.emit(Event{Kind: EventRejoined, Err: err}) }

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
	s := h.span
	if s == nil {
		return
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Token, e.Units = h.held.Token(), h.held.Units()
	s.mu.Lock()
	has := s.has
	if !has {
		s.later = append(s.later, e)
	}
	s.mu.Unlock()
	if has {
		s.deliver(context.WithoutCancel(s.ctx), e)
	}
}
