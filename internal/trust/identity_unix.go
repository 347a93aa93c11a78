//go:build unix

package trust

import (
	"io/fs"
	"os"
	"syscall"
)

// ID tells files apart, whatever their names.
type ID struct{ Dev, Ino uint64 }

// Identify follows no link: what has taken the place of a file is another one.
func Identify(path string) (ID, error) {
	var st syscall.Stat_t
	for {
		if err := syscall.Lstat(path, &st); err != syscall.EINTR {
			return ID{uint64(st.Dev), uint64(st.Ino)}, os.NewSyscallError("lstat", err)
		}
	}
}

// IDOf is that of a file that is open, whatever has its name now.
func IDOf(f *os.File) (ID, error) {
	st, err := f.Stat()
	if err != nil {
		return ID{}, err
	}
	sys := st.Sys().(*syscall.Stat_t)
	return ID{uint64(sys.Dev), uint64(sys.Ino)}, nil
}

func HardLinks(st fs.FileInfo) uint64 {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Nlink)
	}
	return 1
}

func Writable(path string) error { return syscall.Access(path, 4|2) } // R_OK|W_OK
