//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"os"
	"sync"
	"syscall"
)

// rowFile is the file of a row, as this process has it open. It is locked by transactions, and so
// never replaced.
type rowFile struct {
	page // its file is nil if it is not open
	path string
	id   fileID
	gate chan struct{} // of the goroutines of this process
	out  []byte        // room for what is written
	idle *locked       // the file that other programs lock, for the next ticket; or nil

	users int // transactions that use the row, or wait for it. Guarded by rowFiles
}

// rowFiles are the files of a directory that are open: most transactions open none. All clients of
// this process share them, so that a crowd of clients waits for its turn instead of asking the kernel.
type rowFiles struct {
	path    string // of the directory
	clients int    // guarded by directories.mu

	mu  sync.Mutex
	all map[rowName]*rowFile
}

type rowName struct{ folder, file string }

var directories = struct {
	mu  sync.Mutex
	all map[string]*rowFiles
}{all: map[string]*rowFiles{}}

func openRows(path string) *rowFiles {
	directories.mu.Lock()
	defer directories.mu.Unlock()
	o := directories.all[path]
	if o == nil {
		o = &rowFiles{path: path, all: map[rowName]*rowFile{}}
		directories.all[path] = o
	}
	o.clients++
	return o
}

// close is called by each client, when its transactions have ended.
func (o *rowFiles) close() {
	directories.mu.Lock()
	defer directories.mu.Unlock()
	if o.clients--; o.clients > 0 {
		return
	}
	delete(directories.all, o.path)
	for _, r := range o.all {
		r.close()
	}
}

// keptOpen is how many are kept when no transaction uses them.
const keptOpen = 100

func (o *rowFiles) use(d dir, folder, file string) *rowFile {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := rowName{folder, file}
	r := o.all[key]
	if r == nil {
		r = &rowFile{path: d.file(folder, file), gate: make(chan struct{}, 1)}
		o.all[key] = r
	}
	r.users++
	return r
}

func (o *rowFiles) leave(r *rowFile) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.users--
	if len(o.all) <= keptOpen {
		return
	}
	looks := 10
	for key, other := range o.all { // in no order, so that none is kept for ever
		if other.users == 0 {
			other.close()
			delete(o.all, key)
			return
		}
		if looks--; looks == 0 {
			return
		}
	}
}

func (r *rowFile) close() {
	if r.file != nil {
		r.file.Close()
	}
	if r.idle != nil {
		r.idle.close()
	}
}

func (r *rowFile) open(d dir) (err error) {
	if r.file, err = d.open(r.path, os.O_RDWR); err != nil {
		r.file = nil
		return err
	}
	r.id, err = idOf(r.file)
	return err
}

// fileID tells a file from the one that has replaced it.
type fileID struct{ dev, inode uint64 }

func idOf(f *os.File) (fileID, error) {
	st, err := f.Stat()
	if err != nil {
		return fileID{}, err
	}
	sys := st.Sys().(*syscall.Stat_t)
	return fileID{uint64(sys.Dev), uint64(sys.Ino)}, nil
}

// isOf reports whether the file has a path now.
func (id fileID) isOf(path string) bool {
	var st syscall.Stat_t
	return syscall.Lstat(path, &st) == nil && id == fileID{uint64(st.Dev), uint64(st.Ino)}
}
