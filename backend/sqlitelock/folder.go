package sqlitelock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// folder holds the sockets and lock files beside the database. All who share the
// database can put anything there, so its entries are reached by its descriptor, and
// nothing outside of it is: no link is followed out of it, and no mode is set by name.
type folder struct {
	path  string
	mode  fs.FileMode // of files in it
	root  *os.Root
	short string // leads to it in a few bytes, for the names of sockets; "" if nothing does
	free  func()
}

// shared returns the mode of what all need who may write a file of this mode, and
// nobody else: to lock a file it is enough to read it.
func shared(mode fs.FileMode) fs.FileMode {
	write := mode & 0o222
	return 0o600 | write | write<<1
}

// openFolder opens the folder beside a file of this mode, and makes it if there is none.
func openFolder(path string, mode fs.FileMode, sockets bool) (folder, error) {
	f := folder{path: path, mode: shared(mode)}
	err := os.Mkdir(path, 0o700)
	made := err == nil
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return folder{}, err
	}
	if st, err := os.Lstat(path); err != nil {
		return folder{}, err
	} else if !st.IsDir() {
		return folder{}, fmt.Errorf("%s is not a directory; remove it", path)
	}
	if f.root, err = os.OpenRoot(path); err != nil {
		return folder{}, err
	}
	if err := f.secure(made); err != nil {
		f.root.Close()
		return folder{}, err
	}
	if sockets {
		var free func()
		f.short, free = shorten(f)
		f.free = sync.OnceFunc(free) // later the descriptor is another file's
	}
	return f, nil
}

// secure refuses a folder of somebody else, and sets who may use it.
func (f folder) secure(made bool) error {
	dir, err := f.root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	st, err := dir.Stat()
	if err != nil {
		return err
	}
	if err := trustFolder(f.path, st, f.mode); err != nil {
		return err
	}
	return admit(dir, st, f.mode|(f.mode&0o444)>>2, made) // who may read may search
}

func (f folder) file(name string) string   { return filepath.Join(f.path, name) }
func (f folder) socket(name string) string { return f.short + "/" + name }

// create opens a lock file, which it makes if there is none.
func (f folder) create(name string) (*os.File, error) {
	file, err := f.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, f.mode)
	if errors.Is(err, fs.ErrExist) {
		return f.open(name, os.O_RDWR)
	}
	if err != nil {
		return nil, err
	}
	if err := file.Chmod(f.mode); err != nil { // whatever the umask
		file.Close()
		return nil, err
	}
	return file, nil
}

// open opens a lock file. Something else of that name is refused, and not waited for.
func (f folder) open(name string, how int) (*os.File, error) {
	file, err := f.root.OpenFile(name, how|nonblock, 0)
	if err != nil {
		return nil, err
	}
	st, err := file.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is not an ordinary file; remove it", f.file(name))
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func (f folder) remove(name string) { _ = f.root.Remove(name) }

func (f folder) close() {
	if f.free != nil {
		f.free()
	}
	if f.root != nil {
		f.root.Close()
	}
}
