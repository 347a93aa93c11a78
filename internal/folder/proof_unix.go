//go:build unix

package folder

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/interlock-go/interlock/internal/flock"
)

// Prove locks the new file of a session, which proves that the session lives for as long as it is open in any
// process, and writes into it which file it is, so that a copy is known for one. The lock is shared: who runs a
// job gives it a second one, by an opening of its own, so that the job cannot unlock the file for all.
func Prove(f *os.File) error {
	m, err := markOf(f)
	if err == nil {
		_, err = f.WriteAt([]byte(m), 0)
	}
	ok, wrong := flock.TryShared(f)
	if ok && wrong == nil && err == nil {
		return nil
	}
	return errors.Join(errors.New("cannot lock a new file"), wrong, err)
}

// Deserted reports whether the file of a session has no lock, which the caller has then until it closes the file;
// and whether it was made by copying another one. A copy without a lock proves nothing: its session may live, with
// the file that was copied.
func Deserted(f *os.File) (free, copied bool) {
	if ok, err := flock.Try(f); err != nil || !ok {
		return false, false
	}
	m, err := markOf(f)
	is := make([]byte, len(m))
	n, _ := f.ReadAt(is, 0)
	return true, err != nil || n > 0 && string(is[:n]) != m
}

// markOf is without the device, which another start of the system may number anew.
func markOf(f *os.File) (string, error) {
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%020d\n", st.Sys().(*syscall.Stat_t).Ino), nil
}
