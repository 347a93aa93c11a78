//go:build unix && !linux

package folder

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/interlock-go/interlock/internal/trust"
)

// maxSocket is what the names of our sockets may have in front of them: the whole
// name has at most 103 bytes.
const maxSocket = 103 - len("/0123456789abcdef0123456789abcdef.live")

// shorten returns a name of the folder that is short enough for sockets.
func shorten(f Folder) (short string, free func()) {
	if len(f.Path) <= maxSocket {
		return f.Path, func() {}
	}
	return link(f.Path)
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

// reach returns the name of a socket in the folder. A link, and a second name of a
// socket elsewhere, count as missing. Something else may take its place before it is
// used: there are no descriptors of sockets' names here.
func (f Folder) reach(name string) (path string, uid uint32, done func(), err error) {
	st, err := f.Root.Lstat(name)
	if err != nil {
		return "", 0, nil, err
	}
	if st.Mode().Type() != fs.ModeSocket || trust.HardLinks(st) > 1 {
		return "", 0, nil, syscall.ENOENT
	}
	return f.socket(name), trust.Owner(st), func() {}, nil
}

// openTo lets all who share the folder connect to a socket of this process in it.
func (f Folder) openTo(name string) error {
	_, uid, done, err := f.reach(name)
	if err != nil {
		return err
	}
	defer done()
	if uid != uint32(os.Geteuid()) {
		return syscall.EPERM
	}
	return f.Root.Chmod(name, f.Mode)
}
