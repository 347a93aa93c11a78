//go:build unix

package trust

import (
	"io/fs"
	"os"
	"syscall"
)

// ID tells files apart, whatever their names.
type ID struct{ Dev, Ino uint64 }

func Identify(path string) (ID, error) {
	var st syscall.Stat_t
	for {
		if err := syscall.Stat(path, &st); err != syscall.EINTR {
			return ID{uint64(st.Dev), st.Ino}, os.NewSyscallError("stat", err)
		}
	}
}

func HardLinks(st fs.FileInfo) uint64 {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Nlink)
	}
	return 1
}

func Writable(path string) error { return syscall.Access(path, 4|2) } // R_OK|W_OK
