//go:build unix

package folder

import (
	"errors"
	"io/fs"
	"net"
	"os"
)

// Life is what proves that a session lives: a lock on a file, and a socket by which other clients
// notice that all owners of the lock are gone.
type Life struct {
	folder Folder
	id     string
	lock   *os.File
	socket *os.File // nil if there can be none
}

// Live makes the files of a session.
func Live(f Folder, id string) (*Life, error) {
	l := &Life{folder: f, id: id}
	var err error
	if l.lock, err = f.Create(id + lockSuffix); err != nil {
		return nil, err
	}
	if err := Prove(l.lock); err != nil {
		l.Remove()
		return nil, err
	}
	if f.short != "" {
		l.socket = listen(f, id+socketSuffix)
	}
	return l, nil
}

// listen makes a socket whose connections are never accepted.
func listen(f Folder, name string) *os.File {
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

// Files are open as long as the session lives.
func (l *Life) Files() []*os.File {
	if l.socket == nil {
		return []*os.File{l.lock}
	}
	return []*os.File{l.lock, l.socket}
}

// Close gives up life; a child that has inherited it may still have it.
func (l *Life) Close() {
	if l.socket != nil {
		l.socket.Close()
	}
	l.lock.Close()
}

// Remove ends a session whose end no other client needs to notice.
func (l *Life) Remove() {
	l.folder.RemoveSession(l.id)
	l.Close()
}

// RemoveSession removes what a session has left in the folder.
func (f Folder) RemoveSession(id string) {
	f.Remove(id + socketSuffix)
	f.Remove(id + lockSuffix)
}

// Dead reports whether a session has certainly no owner any more. If so, the lock keeps other
// clients from the same finding until it is closed. A missing file proves nothing: another program
// may have removed it. Neither does a copy.
func (f Folder) Dead(id string) (lock *os.File, missing bool) {
	file, err := f.OpenFile(id+lockSuffix, os.O_RDONLY)
	if err != nil {
		return nil, errors.Is(err, fs.ErrNotExist)
	}
	if free, copied := Deserted(file); !free || copied {
		file.Close()
		return nil, false
	}
	return file, false
}
