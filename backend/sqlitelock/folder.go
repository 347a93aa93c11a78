package sqlitelock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// folder holds the sockets and lock files beside the database.
type folder struct {
	path  string
	mode  fs.FileMode // of files in it
	short string      // leads to it in a few bytes, for the names of sockets; "" if nothing does
	free  func()
}

func openFolder(path string, mode fs.FileMode, sockets bool) (folder, error) {
	search := (mode & 0o444) >> 2 // who may read may search
	if err := os.Mkdir(path, 0o700); err == nil {
		made, err := os.Stat(path)
		if err == nil { // whatever the umask; the group of the files is inherited
			err = os.Chmod(path, mode|search|0o700|made.Mode()&fs.ModeSetgid)
		}
		if err != nil {
			return folder{}, err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return folder{}, err
	}
	if st, err := os.Lstat(path); err != nil {
		return folder{}, err
	} else if !st.IsDir() {
		return folder{}, fmt.Errorf("%s is not a directory; remove it", path)
	}
	f := folder{path: path, mode: mode}
	if sockets {
		var free func()
		f.short, free = shorten(path)
		f.free = sync.OnceFunc(free) // later the descriptor is another file's
	}
	return f, nil
}

func (f folder) file(name string) string   { return filepath.Join(f.path, name) }
func (f folder) socket(name string) string { return f.short + "/" + name }

// create opens a file, which it makes if there is none.
func (f folder) create(name string) (*os.File, error) {
	file, err := os.OpenFile(f.file(name), os.O_RDWR|os.O_CREATE|os.O_EXCL, f.mode)
	if errors.Is(err, fs.ErrExist) {
		return os.OpenFile(f.file(name), os.O_RDWR, 0)
	}
	if err != nil {
		return nil, err
	}
	if err := file.Chmod(f.mode); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func (f folder) close() {
	if f.free != nil {
		f.free()
	}
}
