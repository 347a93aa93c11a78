//go:build unix

package folder

import (
	"fmt"
	"os"
	"syscall"
)

// Mark writes into the file of a session which file it is, so that a copy is known for one.
func Mark(f *os.File) error {
	m, err := markOf(f)
	if err == nil {
		_, err = f.WriteAt([]byte(m), 0)
	}
	return err
}

// Copied reports whether a file was made by copying one that Mark has written into. A copy without a lock
// proves nothing: its session may live, with the file that was copied.
func Copied(f *os.File) bool {
	m, err := markOf(f)
	is := make([]byte, len(m))
	n, _ := f.ReadAt(is, 0)
	return err != nil || n > 0 && string(is[:n]) != m
}

// markOf is without the device, which another start of the system may number anew.
func markOf(f *os.File) (string, error) {
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%020d\n", st.Sys().(*syscall.Stat_t).Ino), nil
}
