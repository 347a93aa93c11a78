package zkpeer

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Session is a client with a connection of its own. It is its own first thread.
type Session struct {
	*firstThread
	peer *Peer
	name string

	mu     sync.Mutex
	events []Event // that nobody has awaited
	more   chan struct{}
}

// Event is something that a session was told.
type Event struct {
	Name    string `json:"event"`
	Session string `json:"session"`
	Path    string `json:"path"`
}

// Revoked is the event that somebody asks for a lock back. It has the path of the lock.
const Revoked = "REVOKE"

// Thread does one thing after the other.
type Thread struct {
	session *Session
	name    string
}

// Session returns another session of the peer. It is opened when it is used first.
func (p *Peer) Session(name string) *Session { return p.session("session " + name) }

func (p *Peer) session(name string) *Session {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sessions[name]
	if s == nil {
		s = &Session{peer: p, name: name, more: make(chan struct{})}
		s.firstThread = s.thread("first")
		p.sessions[name] = s
	}
	return s
}

// Thread returns another thread of the session.
func (s *Session) Thread(name string) *Thread { return s.thread("thread " + name) }

func (s *Session) thread(name string) *Thread { return &Thread{s, name} }

// Await waits for an event that nobody has awaited yet.
func (s *Session) Await(ctx context.Context, name string) (Event, error) {
	for {
		s.mu.Lock()
		i := slices.IndexFunc(s.events, func(e Event) bool { return e.Name == name })
		if i >= 0 {
			e := s.events[i]
			s.events = slices.Delete(s.events, i, i+1)
			s.mu.Unlock()
			return e, nil
		}
		all, more := slices.Clone(s.events), s.more
		s.mu.Unlock()
		select {
		case <-more:
		case <-s.peer.process.done:
			return Event{}, s.peer.gone("await " + name)
		case <-ctx.Done():
			return Event{}, fmt.Errorf("%s: no event %s among %v: %w", s.peer.what, name, all, context.Cause(ctx))
		}
	}
}

func (s *Session) happened(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
	close(s.more)
	s.more = make(chan struct{})
}
