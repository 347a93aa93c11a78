package redislock

import (
	"net/url"

	"github.com/interlock-go/interlock/driver/exchange"
)

// words are what scripts are told of a session. They are made once for all calls of it: most clients
// have one session.
type words struct {
	of      exchange.Session
	session string // as the rows of its tickets have it: scripts send events to what stands before the point
	owner   string
	ttl     string // in µs
	expires string // the same, for a key that ends with it, in ms
}

// words returns those of a session.
func (s *store) words(o exchange.Session) *words {
	if w := s.last.Load(); w != nil && w.of == o {
		return w
	}
	w := &words{of: o, session: o.Mailbox + "." + o.ID[:16], owner: " " + url.QueryEscape(o.Owner) + " ", ttl: micros(o.TTL), expires: millis(o.TTL)}
	s.last.Store(w)
	return w
}
