//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"io/fs"
	"os"
	"sync"

	"github.com/interlock-go/interlock/internal/trust"
)

// rowFile is the file of a row, as this process has it open. It is locked by transactions, and so
// never replaced.
type rowFile struct {
	page         // its file is nil if it is not open
	folder, name string
	path         string
	id           trust.ID
	gate         chan struct{} // of the goroutines of this process
	out          []byte        // room for what is written
	idle         *locked       // the file that other programs lock, for the next ticket; or nil

	users int // transactions that use the row, or wait for it. Guarded by rowFiles
}

// rowFiles are the files of a directory that are open: most transactions open none. All clients of
// this process share them, so that a crowd of clients waits for its turn instead of asking the kernel.
type rowFiles struct {
	dir     *dir
	clients map[*store]bool // guarded by directories.mu

	mu  sync.Mutex
	all map[rowName]*rowFile
}

type rowName struct{ folder, file string }

type rowsKey struct {
	path string
	mode fs.FileMode
}

var directories = struct {
	mu  sync.Mutex
	all map[rowsKey]*rowFiles
}{all: map[rowsKey]*rowFiles{}}

// openRows opens the directory for a client, and looks at it, whether other clients have it open or not.
func openRows(path string, mode fs.FileMode, s *store) (*rowFiles, error) {
	directories.mu.Lock()
	defer directories.mu.Unlock()
	d, err := openDir(path, mode)
	if err != nil {
		return nil, err
	}
	key := rowsKey{d.path, d.mode}
	o := directories.all[key]
	if o == nil {
		o = &rowFiles{dir: d, clients: map[*store]bool{}, all: map[rowName]*rowFile{}}
		d.replaced = o.relisten
		directories.all[key] = o
	} else {
		d.close()
	}
	o.clients[s] = true
	return o, nil
}

// relisten is called when the directory was opened again.
func (o *rowFiles) relisten() {
	directories.mu.Lock()
	defer directories.mu.Unlock()
	for s := range o.clients {
		s.relisten()
	}
}

// close is called by each client, when its transactions have ended.
func (o *rowFiles) close(s *store) {
	directories.mu.Lock()
	defer directories.mu.Unlock()
	if delete(o.clients, s); len(o.clients) > 0 {
		return
	}
	delete(directories.all, rowsKey{o.dir.path, o.dir.mode})
	for _, r := range o.all {
		r.close()
	}
	o.dir.close()
}

// keptOpen is how many are kept when no transaction uses them.
const keptOpen = 100

func (o *rowFiles) use(folder, file string) *rowFile {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := rowName{folder, file}
	r := o.all[key]
	if r == nil {
		r = &rowFile{folder: folder, name: file, path: o.dir.file(folder, file), gate: make(chan struct{}, 1)}
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

func (r *rowFile) open(d *dir) (err error) {
	f, in, err := d.open(r.folder, r.name, os.O_RDWR)
	if err != nil {
		return err
	}
	r.file, r.root = f, in.Root
	r.id, err = trust.IDOf(f)
	return err
}

// isOf reports whether a file has a path now.
func isOf(id trust.ID, path string) bool {
	now, err := trust.Identify(path)
	return err == nil && now == id
}
