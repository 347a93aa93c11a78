package exchangetest

import (
	"context"
	"errors"
	"fmt"
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

// link is the connection of a store. World.mu guards all but the first two.
type link struct {
	ctx   context.Context // ends with Close
	close context.CancelFunc

	// While these are not nil, requests, or replies, wait until it is closed, and events are lost.
	requests, replies, deaf chan struct{}
	cut                     chan struct{} // closed when the connection is lost
}

func newLink() (l link) {
	l.cut = make(chan struct{})
	l.ctx, l.close = context.WithCancel(context.Background())
	return l
}

var (
	errLost = errors.New("the connection was lost")
	errShut = errors.New("the store is closed")
)

// request makes an exchange: effect runs alone, and what it changes is there at once.
func request[T any](ctx context.Context, s *Store, effect func(now time.Time) (T, error)) (T, error) {
	var none T
	w := s.w
	w.mu.Lock()
	n, cut, requests := w.network, s.cut, s.requests
	w.mu.Unlock()
	if err := s.wait(ctx, cut, requests, n.delay()); err != nil {
		return none, err
	}
	if happens(n.LoseRequest) {
		return none, fmt.Errorf("request: %w", errLost)
	}
	if n.Longest > 0 && happens(n.LateRequest) {
		time.AfterFunc(rand.N(10*n.Longest), func() { _, _ = run(w, effect) })
		return none, fmt.Errorf("request: %w", errLost)
	}
	got, err := run(w, effect)
	w.mu.Lock()
	replies := s.replies
	w.mu.Unlock()
	if err := s.wait(ctx, cut, replies, n.delay()); err != nil {
		return none, err
	}
	if happens(n.LoseReply) {
		return none, fmt.Errorf("reply: %w", errLost)
	}
	return got, err
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

// wait is for how long a request, or a reply, is on its way.
func (s *Store) wait(ctx context.Context, cut, until <-chan struct{}, d time.Duration) error {
	if until != nil {
		select {
		case <-until:
		case <-cut:
			return errLost
		case <-ctx.Done():
		case <-s.ctx.Done():
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case s.ctx.Err() != nil:
		return errShut
	case d > 0:
		return backoff.Sleep(ctx, d)
	}
	return nil
}

func happens(p float64) bool { return p > 0 && rand.Float64() < p }

func (n *Network) delay() time.Duration {
	if n.Longest <= 0 || !happens(n.Delay) {
		return 0
	}
	return rand.N(n.Longest)
}

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

// Crash loses all connections, with the events that are on their way. The rows stay: the backend
// writes them before it replies. History is that of the server that answers from then on.
func (w *World) Crash(history string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = history
	for _, m := range w.mail {
		m.all, m.lost = nil, true
		m.ring()
	}
	for _, s := range w.stores {
		close(s.cut)
		s.cut = make(chan struct{})
	}
}

// mailbox is a client that listens.
type mailbox struct {
	s    *Store
	wake chan struct{} // has room for one
	all  []exchange.Event
	lost bool
}

func (m *mailbox) ring() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// send puts an event into a mailbox, if a client listens there. World.mu is held, and the exchange
// takes effect at the same moment.
func (w *World) send(to string, ev exchange.Event) {
	m := w.mail[to]
	if m == nil || m.s.deaf != nil || happens(w.network.LoseEvent) {
		return
	}
	m.all = append(m.all, ev)
	if happens(w.network.RepeatEvent) {
		m.all = append(m.all, ev)
	}
	if happens(w.network.DelayEvent) {
		rand.Shuffle(len(m.all), func(i, j int) { m.all[i], m.all[j] = m.all[j], m.all[i] })
		time.AfterFunc(rand.N(max(w.network.Longest, 1)), m.ring)
		return
	}
	m.ring()
}

// Listen implements [exchange.Store].
func (s *Store) Listen(ctx context.Context, name string, up func(), receive func(exchange.Event)) error {
	m := &mailbox{s: s, wake: make(chan struct{}, 1)}
	if s.w.has(Listen) {
		up()
		up = func() {}
		if err := backoff.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
	if err := do(ctx, s, func(time.Time) error { s.w.mail[name] = m; return nil }); err != nil {
		return err
	}
	defer func() {
		s.w.mu.Lock()
		defer s.w.mu.Unlock()
		if s.w.mail[name] == m {
			delete(s.w.mail, name)
		}
	}()
	up()
	for {
		select {
		case <-m.wake:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ctx.Done():
			return errShut
		}
		s.w.mu.Lock()
		all, lost := m.all, m.lost
		m.all = nil
		s.w.mu.Unlock()
		if lost {
			return errLost
		}
		for _, ev := range all {
			receive(ev)
		}
	}
}

// Close implements [exchange.Store].
func (s *Store) Close() {
	if !s.w.has(Close) {
		s.close()
	}
}

// Connections counts the stores that are not closed.
func (w *World) Connections() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.stores {
		if s.ctx.Err() == nil {
			n++
		}
	}
	return n
}
