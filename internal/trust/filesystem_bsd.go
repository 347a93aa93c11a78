//go:build darwin || freebsd

package trust

import (
	"os"
	"syscall"
)

// mntLocal is MNT_LOCAL, which package syscall does not have.
const mntLocal = 0x1000

// Filesystem tells whether a folder is on a file system of this machine.
func Filesystem(path string) (Kind, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return Kind{}, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	if st.Flags&mntLocal == 0 {
		return Kind{Name: "a network file system", Network: true}, nil
	}
	return Kind{Name: "a local file system"}, nil
}

// Mounted knows nothing here.
func Mounted(string) bool { return false }
