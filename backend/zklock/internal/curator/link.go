package curator

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"github.com/interlock-go/interlock/driver"
)

// link is a connection, and what is added to tokens, which it reads once.
type link struct {
	*zk.Link
	floors floors
}

func newLink(l *zk.Link) *link { return &link{l, floors{turn: make(turn, 1)}} }

func (c *config) dialled(ctx context.Context, ttl time.Duration) (*link, error) {
	l, err := c.servers.Connect(ctx, ttl)
	if err != nil {
		return nil, err
	}
	return newLink(l), nil
}

// sync asks the leader, and waits until the server shows what it has shown till then.
func (s *session) sync(ctx context.Context) error { return s.l.Sync(ctx, s.d.top()) }

func (s *session) holding() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.places {
		if p.state == held && !p.fixed {
			return true
		}
	}
	return false
}

// pulse keeps the session proven.
func (s *session) pulse() {
	p := zk.Pulse{TTL: s.ttl, Path: s.d.top(), Holding: s.holding, Renewed: func() driver.Instant { return driver.Instant(s.renewed.Load()) }}
	if s.l.Own {
		p.Over = s.isOver
	}
	s.l.Pulse(s.ctx, p)
}

// content is a node's.
type content = zk.Content

// ring wakes a goroutine, which then looks at everything.
func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// watch listens for the next event at a node, and rings the bell then.
func (l *link) watch(path string, children bool, bell chan struct{}) *zk.Watch {
	return l.Watch(path, children, func() { ring(bell) })
}
