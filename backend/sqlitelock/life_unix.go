//go:build unix

package sqlitelock

import (
	"errors"
	"io/fs"
	"net"
	"os"

	"github.com/interlock-go/interlock/internal/flock"
)

// life is what proves that a session lives: a lock on a file, and a socket by which other clients
// notice that all owners of the lock are gone.
type life struct {
	folder folder
	id     string
	lock   *os.File
	socket *os.File // nil if there can be none
}

const (
	lockSuffix   = ".live"
	socketSuffix = ".sock"
)

func live(f folder, id string) (*life, error) {
	l := &life{folder: f, id: id}
	var err error
	if l.lock, err = f.create(id + lockSuffix); err != nil {
		return nil, err
	}
	if ok, err := flock.Try(l.lock); err != nil || !ok {
		l.remove()
		return nil, errors.Join(errors.New("cannot lock a new file"), err)
	}
	if f.short != "" {
		l.socket = listen(f, id+socketSuffix)
	}
	return l, nil
}

// listen makes a socket that nobody ever accepts connections from.
func listen(f folder, name string) *os.File {
	s, err := net.ListenUnix("unix", &net.UnixAddr{Name: f.socket(name), Net: "unix"})
	if err != nil {
		return nil
	}
	defer s.Close()
	s.SetUnlinkOnClose(false)
	if f.openTo(name) != nil {
		return nil
	}
	file, err := s.File()
	if err != nil {
		return nil
	}
	return file
}

func (l *life) files() []*os.File {
	if l.socket == nil {
		return []*os.File{l.lock}
	}
	return []*os.File{l.lock, l.socket}
}

// close gives up life; a child that has inherited it may still have it.
func (l *life) close() {
	if l.socket != nil {
		l.socket.Close()
	}
	l.lock.Close()
}

// remove ends a session whose end no other client needs to notice.
func (l *life) remove() {
	l.folder.removeSession(l.id)
	l.close()
}

// removeSession removes what a session has left in the folder.
func (f folder) removeSession(id string) {
	f.remove(id + socketSuffix)
	f.remove(id + lockSuffix)
}

// dead reports whether a session has certainly no owner any more. If so, the lock keeps other
// clients from the same finding until it is closed. A missing file proves nothing: another program
// may have removed it.
func (f folder) dead(id string) (lock *os.File, missing bool) {
	file, err := f.open(id+lockSuffix, os.O_RDONLY)
	if err != nil {
		return nil, errors.Is(err, fs.ErrNotExist)
	}
	if ok, err := flock.Try(file); err != nil || !ok {
		file.Close()
		return nil, false
	}
	return file, false
}
