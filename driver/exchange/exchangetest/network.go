package exchangetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/backoff"
)

// Network is what happens between the stores of a world and the backend: each is how likely it
// is, from 0 to 1.
type Network struct {
	LoseRequest float64 // the exchange takes no effect, and has no reply
	LoseReply   float64 // the exchange takes effect, and has no reply
	Delay       float64 // of a request, or a reply, or both
	LateRequest float64 // the exchange has no reply, and takes effect much later
	LoseEvent   float64
	DelayEvent  float64 // so that others overtake it
	RepeatEvent float64

	Longest time.Duration // of a delay
}

// Disturb has the network do so from now on.
func (w *World) Disturb(n Network) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.network = n
}

var (
	errLost = errors.New("the connection was lost")
	errShut = errors.New("the store is closed")
)

// request makes an exchange: effect runs alone, and what it changes is there at once.
func request[T any](ctx context.Context, s *Store, effect func(now time.Time) (T, error)) (none T, err error) {
	n, err := s.pass(ctx, &s.requests)
	if err != nil {
		return none, err
	}
	if happens(n.LoseRequest) {
		return none, errLost
	}
	if n.Longest > 0 && happens(n.LateRequest) {
		time.AfterFunc(rand.N(10*n.Longest), func() { _, _ = run(s.w, effect) })
		return none, errLost
	}
	got, said := run(s.w, effect)
	if n, err = s.pass(ctx, &s.replies); err != nil {
		return none, err
	}
	if happens(n.LoseReply) {
		return none, errLost
	}
	return got, said
}

// do is request for an exchange without a result.
func do(ctx context.Context, s *Store, effect func(now time.Time) error) error {
	_, err := request(ctx, s, func(now time.Time) (struct{}, error) { return struct{}{}, effect(now) })
	return err
}

// clock is the time of the backend: the wall clock without the steady one, so that an end and what is
// left until it agree.
func clock() time.Time { return time.Now().Round(0) }

func run[T any](w *World, effect func(time.Time) (T, error)) (T, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return effect(clock())
}

// pass is the way of a request, or a reply, over the network.
func (s *Store) pass(ctx context.Context, gate *chan struct{}) (Network, error) {
	s.w.mu.Lock()
	n, cut, until := s.w.network, s.cut, *gate
	s.w.mu.Unlock()
	if until != nil {
		select {
		case <-until:
		case <-cut:
			return n, errLost
		case <-ctx.Done():
		case <-s.ctx.Done():
		}
	}
	if s.ctx.Err() != nil {
		return n, errShut
	}
	if n.Longest > 0 && happens(n.Delay) {
		return n, backoff.Sleep(ctx, rand.N(n.Longest))
	}
	return n, ctx.Err()
}

func happens(p float64) bool { return p > 0 && rand.Float64() < p }

// Hang holds back every request until resume is called.
func (w *World) Hang() (resume func()) {
	return w.hold(func(s *Store) *chan struct{} { return &s.requests })
}

// HoldReplies holds back every reply until resume is called.
func (w *World) HoldReplies() (resume func()) {
	return w.hold(func(s *Store) *chan struct{} { return &s.replies })
}

// LoseEvents loses every event until resume is called.
func (w *World) LoseEvents() (resume func()) {
	return w.hold(func(s *Store) *chan struct{} { return &s.deaf })
}

func (w *World) hold(what func(*Store) *chan struct{}) (resume func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	stores, until := slices.Clone(w.stores), make(chan struct{})
	for _, s := range stores {
		*what(s) = until
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, s := range stores {
			*what(s) = nil
		}
		close(until)
	}
}

// Crash loses all connections, and may lose events that are on their way. The rows stay: the backend
// writes them before it replies. History is that of the server that answers from then on.
func (w *World) Crash(history string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = history
	clear(w.mail)
	for _, s := range w.stores {
		close(s.cut)
		s.cut = make(chan struct{})
	}
}

// mailbox is a client that listens.
type mailbox struct {
	s      *Store
	events chan exchange.Event
}

// send puts an event into a mailbox, if a client listens there. World.mu is held, and the exchange
// takes effect at the same moment.
func (w *World) send(to string, ev exchange.Event) {
	m := w.mail[to]
	if m == nil || m.s.deaf != nil || happens(w.network.LoseEvent) {
		return
	}
	arrive := func() {
		select {
		case m.events <- ev:
		default: // too slow: the event is lost
		}
	}
	if happens(w.network.RepeatEvent) {
		arrive()
	}
	if happens(w.network.DelayEvent) {
		time.AfterFunc(rand.N(max(w.network.Longest, 1)), arrive)
		return
	}
	arrive()
}

// Listen implements [exchange.Store]. What is sent when it has returned is lost.
func (s *Store) Listen(ctx context.Context, name string, up func(), receive func(exchange.Event)) error {
	m := &mailbox{s, make(chan exchange.Event, 1000)}
	if s.w.has(Listen) {
		up()
		up = func() {}
		_ = backoff.Sleep(ctx, time.Second)
	}
	cut, err := request(ctx, s, func(time.Time) (chan struct{}, error) { s.w.mail[name] = m; return s.cut, nil })
	if err != nil {
		return err
	}
	up()
	for {
		select {
		case ev := <-m.events:
			receive(ev)
		case <-cut:
			return errLost
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ctx.Done():
			return errShut
		}
	}
}

// Close implements [exchange.Store].
func (s *Store) Close() {
	if s.w.has(Close) {
		return
	}
	s.close()
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.stores = slices.DeleteFunc(s.w.stores, func(other *Store) bool { return other == s })
}

// Connections counts the stores that are not closed.
func (w *World) Connections() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.stores)
}
