//go:build unix

package sqlitelock

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// fileID tells files apart, whatever their names.
type fileID struct{ dev, ino uint64 }

func identify(path string) (fileID, error) {
	var st syscall.Stat_t
	for {
		if err := syscall.Stat(path, &st); err != syscall.EINTR {
			return fileID{uint64(st.Dev), st.Ino}, os.NewSyscallError("stat", err)
		}
	}
}

func hardLinks(st fs.FileInfo) uint64 {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Nlink)
	}
	return 1
}

func writable(path string) error { return unix.Access(path, unix.R_OK|unix.W_OK) }
