//go:build darwin || freebsd

package sqlitelock

import (
	"os"

	"golang.org/x/sys/unix"
)

// filesystem tells whether a folder is on a file system of this machine.
func filesystem(path string) (filesystemKind, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return filesystemKind{}, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	if st.Flags&unix.MNT_LOCAL == 0 {
		return filesystemKind{name: "a network file system", network: true}, nil
	}
	return filesystemKind{name: "a local file system"}, nil
}

// space returns how many bytes are free for us.
func space(path string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}
