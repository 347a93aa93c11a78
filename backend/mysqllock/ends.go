package mysqllock

import (
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// sessionEnds are the sessions of this client that are known to be there, so that no exchange
// has to ask for that: each with an end, by the server's clock, that was written for it.
//
// Nothing ends a session before that but its own Close, whose client uses nothing that a
// Join which was under way has got; such a ticket keeps nobody out. If the end comes while a
// statement waits for its queue, the ticket stands for one TTL from when the statement
// began, which is what its client counts on.
//
// A server's clock may be set back, and a server may be replaced by one that knows no such
// session. So an end counts only until the TTL since it was asked for is over here, and
// only on connections that were there before that.
type sessionEnds struct {
	mu  sync.Mutex
	all map[string]sessionEnd
}

type sessionEnd struct {
	ttl  time.Duration
	sent driver.Instant // when the exchange began that wrote it
	ends int64
}

func (l *sessionEnds) begin(session string, ttl time.Duration, sent driver.Instant, ends int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[string]sessionEnd{}
	}
	l.all[session] = sessionEnd{ttl, sent, ends}
}

func (l *sessionEnds) renewed(session string, sent driver.Instant, ends int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if of, ok := l.all[session]; ok && sent > of.sent {
		l.all[session] = sessionEnd{of.ttl, sent, ends}
	}
}

func (l *sessionEnds) end(session string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, session)
}

// of is an end that the session has at least, for a connection that has been there since
// then.
func (l *sessionEnds) of(session string, since driver.Instant) (int64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of, ok := l.all[session]
	return of.ends, ok && since < of.sent && driver.Now() < of.sent.Add(of.ttl)
}
