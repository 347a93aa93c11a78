// Package folder is what lies beside the file: the sockets by which clients notify one another, and
// the lock files that show which sessions live.
package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/trust"
)

// Folder holds the sockets and lock files beside the database. All who share the
// database can put anything there, so its entries are reached by its descriptor, and
// nothing outside of it is: no link is followed out of it, and no mode is set by name.
type Folder struct {
	Path  string
	Mode  fs.FileMode // of files in it
	Root  *os.Root
	short string // leads to it in a few bytes, for the names of sockets; "" if nothing does
	free  func()
}

// ModeOf returns the mode of the files beside one of this mode: only users who may write that one may
// read or write these. To lock a file it is enough to read it.
func ModeOf(mode fs.FileMode) fs.FileMode {
	write := mode & 0o222
	return 0o600 | write | write<<1
}

// Open opens the folder beside a file of this mode, and makes it if there is none.
func Open(path string, mode fs.FileMode, sockets bool) (Folder, error) {
	f := Folder{Path: path, Mode: ModeOf(mode)}
	err := os.Mkdir(path, 0o700)
	made := err == nil
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return Folder{}, err
	}
	if st, err := os.Lstat(path); err != nil {
		return Folder{}, err
	} else if !st.IsDir() {
		return Folder{}, fmt.Errorf("%s is not a directory; remove it", path)
	}
	if f.Root, err = os.OpenRoot(path + string(filepath.Separator)); err != nil {
		return Folder{}, err
	}
	if err := f.secure(made); err != nil {
		f.Root.Close()
		return Folder{}, err
	}
	if sockets {
		f = Of(path, f.Mode, f.Root)
	}
	return f, nil
}

// Of is a folder that is open, with sockets.
func Of(path string, mode fs.FileMode, root *os.Root) Folder {
	f := Folder{Path: path, Mode: mode, Root: root}
	var free func()
	f.short, free = shorten(f)
	f.free = sync.OnceFunc(free) // later the descriptor is another file's
	return f
}

// secure refuses a folder of another user, and sets who may use it.
func (f Folder) secure(made bool) error {
	dir, err := f.Root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	st, err := dir.Stat()
	if err != nil {
		return err
	}
	if now, err := os.Lstat(f.Path); err != nil || !os.SameFile(now, st) {
		return errors.Join(fmt.Errorf("%s is no folder of its own; remove it", f.Path), err)
	}
	if err := trust.Folder(f.Path, st, f.Mode); err != nil {
		return err
	}
	return trust.Admit(dir, st, f.Mode|(f.Mode&0o444)>>2, made) // who may read may search
}

// File is the path of a file in the folder.
func (f Folder) File(name string) string   { return filepath.Join(f.Path, name) }
func (f Folder) socket(name string) string { return f.short + "/" + name }

// Create opens a lock file, which it makes if there is none.
func (f Folder) Create(name string) (*os.File, error) {
	file, err := f.Make(name)
	if errors.Is(err, fs.ErrExist) {
		return f.OpenFile(name, os.O_RDWR)
	}
	return file, err
}

// Make makes a file that nobody else has.
func (f Folder) Make(name string) (*os.File, error) {
	file, err := f.Root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, f.Mode)
	if err == nil {
		if err = file.Chmod(f.Mode); err != nil { // whatever the umask
			file.Close()
		}
	}
	return file, err
}

// OpenFile opens a file that is there. Something else of that name is refused, and not waited for. So is, for
// writing, a file that has another name, which may be anybody's.
func (f Folder) OpenFile(name string, how int) (*os.File, error) {
	st, err := f.Root.Lstat(name)
	if err != nil {
		return nil, err
	}
	what := "is not an ordinary file; remove it"
	if st.Mode().Type() == fs.ModeSymlink {
		what = "is a symbolic link: remove it, or use the directory that it leads to"
	}
	if st.Mode().IsRegular() {
		file, err := f.Root.OpenFile(name, how|trust.NoFollow|trust.Nonblock, 0)
		if err != nil {
			return nil, err
		}
		if st, err := file.Stat(); err == nil && st.Mode().IsRegular() {
			if how == os.O_RDONLY || trust.HardLinks(st) <= 1 {
				return file, nil
			}
			what = "has another name (a hard link); remove it"
		}
		file.Close()
	}
	return nil, driver.Permanent(fmt.Errorf("%s %s", f.File(name), what))
}

// List lists the files.
func (f Folder) List() ([]string, error) {
	dir, err := f.Root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Readdirnames(-1)
}

// Has says whether there is a file of that name.
func (f Folder) Has(name string) bool {
	_, err := f.Root.Lstat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

// Remove removes a file.
func (f Folder) Remove(name string) { _ = f.Root.Remove(name) }

// Close closes the folder.
func (f Folder) Close() {
	if f.free != nil {
		f.free()
	}
	if f.Root != nil {
		f.Root.Close()
	}
}
