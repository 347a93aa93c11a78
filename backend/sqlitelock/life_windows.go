package sqlitelock

import (
	"errors"
	"io/fs"
	"os"

	"github.com/interlock-go/interlock/internal/flock"
)

// life is what proves that a session lives: a lock on a file. It cannot be
// inherited.
type life struct {
	folder folder
	id     string
	lock   *os.File
}

const lockSuffix = ".live"

func live(f folder, id string) (*life, error) {
	file, err := f.create(id + lockSuffix)
	if err != nil {
		return nil, err
	}
	l := &life{f, id, file}
	if ok, err := flock.Try(file); err != nil || !ok {
		l.remove()
		return nil, errors.Join(errors.New("cannot lock a new file"), err)
	}
	return l, nil
}

func (l *life) files() []*os.File { return nil }

func (l *life) close() { l.lock.Close() }

// remove ends a session whose end no other client needs to notice. An open file cannot
// be removed here.
func (l *life) remove() {
	l.close()
	l.folder.removeSession(l.id)
}

// removeSession removes what a session has left in the folder.
func (f folder) removeSession(id string) { f.remove(id + lockSuffix) }

// dead reports whether a session has certainly no owner any more. If so, the lock keeps other
// clients from the same finding until it is closed. A missing file proves nothing: another program
// may have removed it.
func (f folder) dead(id string) (lock *os.File, missing bool) {
	file, err := f.open(id+lockSuffix, os.O_RDWR)
	if err != nil {
		return nil, errors.Is(err, fs.ErrNotExist)
	}
	if ok, err := flock.Try(file); err != nil || !ok {
		file.Close()
		return nil, false
	}
	return file, false
}
