package sqlitelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/interlock-go/interlock/driver"
	"zombiezen.com/go/sqlite"
)

// explain says what to do about an error of SQLite, and marks those that will
// be the same next time.
func (f *file) explain(err error) error {
	if err == nil || driver.IsPermanent(err) || errors.Is(err, errEmpty) || errors.Is(err, context.DeadlineExceeded) {
		return err // which stuck has made, if the time was over
	}
	permanent := func(what string) error {
		return driver.Permanent(fmt.Errorf("%s %s: %w", f.path, what, err))
	}
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultNotADB:
		return permanent("is no SQLite database; name another file")
	case sqlite.ResultCorrupt:
		return permanent("is damaged; stop all who use it, move it away and start again (locks need no backup)")
	case sqlite.ResultReadOnly:
		return permanent("or its folder cannot be written, which every lock needs")
	case sqlite.ResultCantOpen:
		return permanent("cannot be opened together with its -wal and -shm files; look at the permissions of its folder")
	case sqlite.ResultPerm, sqlite.ResultAuth:
		return permanent("may not be used")
	case sqlite.ResultFull:
		return fmt.Errorf("%s cannot grow: the disk or quota is full: %w", f.path, err)
	}
	return fmt.Errorf("%s: %w", f.path, err)
}

// full reports an error that only free space can cure.
func full(err error) bool { return sqlite.ErrCode(err).ToPrimary() == sqlite.ResultFull }

// stuck is the error for a wait that ended before the file was free.
func (f *file) stuck(err error) error {
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	if who := f.blockers.Names(); len(who) > 0 {
		return fmt.Errorf("%s is locked by %s: %w", f.path, strings.Join(who, ", "), err)
	}
	if errors.Is(err, errCrowd) {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	if st, e := os.Lstat(f.path + "-journal"); e == nil && st.Size() > 0 { // SQLite waits to be alone, and rolls it back
		return fmt.Errorf("%s-journal is in the way, which is not of locks; if no other program uses the file, remove it: %w", f.path, err)
	}
	return fmt.Errorf("%s is locked by another process: %w", f.path, err)
}
