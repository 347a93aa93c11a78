package folder

import (
	"errors"
	"io/fs"
	"os"

	"github.com/interlock-go/interlock/internal/flock"
)

// Life is what proves that a session lives: a lock on a file. It cannot be
// inherited.
type Life struct {
	folder Folder
	id     string
	lock   *os.File
}

// Live makes the files of a session.
func Live(f Folder, id string) (*Life, error) {
	file, err := f.Create(id + lockSuffix)
	if err != nil {
		return nil, err
	}
	l := &Life{f, id, file}
	if ok, err := flock.Try(file); err != nil || !ok {
		l.Remove()
		return nil, errors.Join(errors.New("cannot lock a new file"), err)
	}
	return l, nil
}

// Files are open as long as the session lives.
func (l *Life) Files() []*os.File { return nil }

// Close gives up life.
func (l *Life) Close() { l.lock.Close() }

// Remove ends a session whose end no other client needs to notice. An open file cannot
// be removed here.
func (l *Life) Remove() {
	l.Close()
	l.folder.RemoveSession(l.id)
}

// RemoveSession removes what a session has left in the folder.
func (f Folder) RemoveSession(id string) { f.Remove(id + lockSuffix) }

// Dead reports whether a session has certainly no owner any more. If so, the lock keeps other
// clients from the same finding until it is closed. A missing file proves nothing: another program
// may have removed it.
func (f Folder) Dead(id string) (lock *os.File, missing bool) {
	file, err := f.OpenFile(id+lockSuffix, os.O_RDWR)
	if err != nil {
		return nil, errors.Is(err, fs.ErrNotExist)
	}
	if ok, err := flock.Try(file); err != nil || !ok {
		file.Close()
		return nil, false
	}
	return file, false
}
