//go:build darwin || freebsd

package trust

import (
	"os"

	"golang.org/x/sys/unix"
)

// Filesystem tells whether a folder is on a file system of this machine.
func Filesystem(path string) (Kind, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return Kind{}, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	if st.Flags&unix.MNT_LOCAL == 0 {
		return Kind{Name: "a network file system", Network: true}, nil
	}
	return Kind{Name: "a local file system"}, nil
}

// Space returns how many bytes are free for us.
func Space(path string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}
