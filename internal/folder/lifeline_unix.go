//go:build unix

package folder

import (
	"errors"
	"net"
	"syscall"
)

// Lifeline is a connection to a session's socket. Nothing is sent on it and it is never accepted,
// so that it ends when the last owner of the socket is gone.
type Lifeline struct{ net.Conn }

// Lifeline connects to a session's socket. Refused means that the socket has no owner any more;
// any other failure says nothing about the session.
func (f Folder) Lifeline(id string) (l *Lifeline, refused bool) {
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
	return &Lifeline{c}, false
}

// Wait returns when the owners are gone, or this end is closed.
func (l *Lifeline) Wait() { _, _ = l.Read(make([]byte, 1)) }
