package sqlitelock

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// shorten returns a name of the folder that is short enough for sockets, whose
// names have at most 107 bytes: by way of an open descriptor.
func shorten(path string) (short string, free func()) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", func() {}
	}
	short = fmt.Sprintf("/proc/self/fd/%d", fd)
	if _, err := os.Stat(short); err != nil { // there is no /proc
		unix.Close(fd)
		return "", func() {}
	}
	return short, func() { unix.Close(fd) }
}
