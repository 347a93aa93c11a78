package exchangetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
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

// link is the connection of a store.
type link struct {
	ctx   context.Context // ends with Close
	close context.CancelFunc

	mu       sync.Mutex
	requests chan struct{} // while it is not nil, requests wait until it is closed
	replies  chan struct{} // the same
	deaf     bool          // events are lost
	cut      chan struct{} // closed when the connection is lost
}

func newLink() *link {
	l := &link{cut: make(chan struct{})}
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
	n := w.network
	w.mu.Unlock()
	s.link.mu.Lock()
	cut, requests := s.link.cut, s.link.requests
	s.link.mu.Unlock()
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
	s.link.mu.Lock()
	replies := s.link.replies
	s.link.mu.Unlock()
	if err := s.wait(ctx, cut, replies, n.delay()); err != nil {
		return none, err
	}
	if happens(n.LoseReply) {
		return none, fmt.Errorf("reply: %w", errLost)
	}
	return got, err
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
		case <-s.link.ctx.Done():
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case s.link.ctx.Err() != nil:
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

// all calls f for each store, and returns what calls undo for each.
func (w *World) all(f func(*link) (undo func(*link))) (undo func()) {
	w.mu.Lock()
	stores := slices.Clone(w.links)
	w.mu.Unlock()
	undos := make([]func(*link), len(stores))
	for i, s := range stores {
		s.link.mu.Lock()
		undos[i] = f(s.link)
		s.link.mu.Unlock()
	}
	return func() {
		for i, s := range stores {
			s.link.mu.Lock()
			undos[i](s.link)
			s.link.mu.Unlock()
		}
	}
}

// Hang holds back every request until resume is called.
func (w *World) Hang() (resume func()) {
	return w.all(func(l *link) func(*link) {
		until := make(chan struct{})
		l.requests = until
		return func(l *link) { l.requests = nil; close(until) }
	})
}

// HoldReplies holds back every reply until resume is called.
func (w *World) HoldReplies() (resume func()) {
	return w.all(func(l *link) func(*link) {
		until := make(chan struct{})
		l.replies = until
		return func(l *link) { l.replies = nil; close(until) }
	})
}

// LoseEvents loses every event until resume is called.
func (w *World) LoseEvents() (resume func()) {
	return w.all(func(l *link) func(*link) {
		l.deaf = true
		return func(l *link) { l.deaf = false }
	})
}

// Crash loses all connections, with the events that are on their way. The rows stay: the backend
// writes them before it replies. History is that of the server that answers from then on.
func (w *World) Crash(history string) {
	w.mu.Lock()
	w.history = history
	for _, m := range w.mail {
		m.lose()
	}
	w.mu.Unlock()
	w.all(func(l *link) func(*link) {
		close(l.cut)
		l.cut = make(chan struct{})
		return nil
	})
}

// mailbox is a client that listens.
type mailbox struct {
	link *link
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

func (m *mailbox) lose() {
	m.all, m.lost = nil, true
	m.ring()
}

// send puts an event into a mailbox, if a client listens there. World.mu is held, and the exchange
// takes effect at the same moment.
func (w *World) send(to string, ev exchange.Event) {
	m := w.mail[to]
	if m == nil || happens(w.network.LoseEvent) {
		return
	}
	m.link.mu.Lock()
	deaf := m.link.deaf
	m.link.mu.Unlock()
	if deaf {
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
	if s.Script.Listen != nil {
		return s.Script.Listen(ctx, name, up, receive)
	}
	m := &mailbox{link: s.link, wake: make(chan struct{}, 1)}
	if s.w.has(Listen) {
		up()
		up = func() {}
		if err := backoff.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
	if _, err := request(ctx, s, func(time.Time) (struct{}, error) { s.w.mail[name] = m; return struct{}{}, nil }); err != nil {
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
		case <-s.link.ctx.Done():
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
		s.link.close()
	}
}

// Connections counts the stores that are not closed.
func (w *World) Connections() (n int) {
	w.all(func(l *link) func(*link) {
		if l.ctx.Err() == nil {
			n++
		}
		return nil
	})
	return n
}
