//go:build unix

package sqlitelock

import (
	"errors"
	"net"
	"syscall"
)

// lifeline is a connection to a session's socket. Nothing is sent on it and it is never accepted,
// so that it ends when the last owner of the socket is gone.
type lifeline struct{ net.Conn }

// lifeline connects to a session's socket. Refused means that the socket has no owner any more;
// any other failure says nothing about the session.
func (f folder) lifeline(id string) (l *lifeline, refused bool) {
	if f.short == "" {
		return nil, false
	}
	path, _, done, err := f.reach(id + socketSuffix)
	if err != nil {
		return nil, false
	}
	defer done()
	c, err := net.Dial("unix", path)
	if err != nil {
		return nil, errors.Is(err, syscall.ECONNREFUSED)
	}
	return &lifeline{c}, false
}

// wait returns when the owners are gone, or this end is closed.
func (l *lifeline) wait() { _, _ = l.Read(make([]byte, 1)) }
