//go:build unix && !linux

package sqlitelock

import (
	"os"
	"path/filepath"
)

// maxSocket is what the names of our sockets may have in front of them: the whole
// name has at most 103 bytes.
const maxSocket = 103 - len("/0123456789abcdef0123456789abcdef.live")

// shorten returns a name of the folder that is short enough for sockets.
func shorten(path string) (short string, free func()) {
	if len(path) <= maxSocket {
		return path, func() {}
	}
	return link(path)
}

// link makes a symbolic link to the folder with a short name.
func link(path string) (short string, free func()) {
	for _, tmp := range []string{os.TempDir(), "/tmp"} {
		dir, err := os.MkdirTemp(tmp, "interlock")
		if err != nil {
			continue
		}
		short = filepath.Join(dir, "l")
		if len(short) <= maxSocket && os.Symlink(path, short) == nil {
			return short, func() { os.RemoveAll(dir) }
		}
		os.RemoveAll(dir)
	}
	return "", func() {}
}
