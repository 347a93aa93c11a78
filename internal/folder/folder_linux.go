package folder

import (
	"fmt"
	"os"
	"syscall"
)

// oPath is O_PATH, which package syscall does not have.
const oPath = 0x200000

// shorten returns a name of the folder that is short enough for sockets, whose
// names have at most 107 bytes: by way of an open descriptor.
func shorten(f Folder) (short string, free func()) {
	dir, err := f.Root.Open(".")
	if err != nil {
		return "", func() {}
	}
	short = fmt.Sprintf("/proc/self/fd/%d", dir.Fd())
	if _, err := os.Stat(short); err != nil { // there is no /proc
		dir.Close()
		return "", func() {}
	}
	return short, func() { dir.Close() }
}

// reach returns a name of a socket in the folder by which nothing else is reached,
// whatever takes its place meanwhile: by way of a descriptor, which done closes. A
// link, and a second name of a socket elsewhere, count as missing.
func (f Folder) reach(name string) (path string, uid uint32, done func(), err error) {
	fd, err := syscall.Open(f.socket(name), oPath|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err != nil {
		return "", 0, nil, err
	}
	var st syscall.Stat_t
	if err = syscall.Fstat(fd, &st); err == nil && (st.Mode&syscall.S_IFMT != syscall.S_IFSOCK || st.Nlink > 1) {
		err = syscall.ENOENT
	}
	if err != nil {
		syscall.Close(fd)
		return "", 0, nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d", fd), st.Uid, func() { syscall.Close(fd) }, nil
}

// openTo lets all who share the folder connect to a socket of this process in it.
func (f Folder) openTo(name string) error {
	path, uid, done, err := f.reach(name)
	if err != nil {
		return err
	}
	defer done()
	if uid != uint32(os.Geteuid()) {
		return syscall.EPERM
	}
	return syscall.Chmod(path, uint32(f.Mode))
}
