//go:build unix

package sqlitelock

import (
	"errors"
	"net"
	"syscall"
)

// wake is a connection to a session's socket. Nobody accepts it or sends anything,
// so it ends when the last owner of the socket is gone.
type wake struct{ c net.Conn }

// wake connects to a session's socket. Refused means that nobody owns it any more;
// any other failure says nothing about the session.
func (f folder) wake(id string) (w *wake, refused bool) {
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
	return &wake{c}, false
}

// wait returns when the session's owners are gone, or this end is closed.
func (w *wake) wait() { w.c.Read(make([]byte, 1)) }

func (w *wake) close() { w.c.Close() }
