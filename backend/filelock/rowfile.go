//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"os"

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
	idle         lockFile      // for the next ticket

	users int // transactions that use the row, or wait for it. Guarded by dir.rowsMu
}

// keptOpen is how many are kept when no transaction uses them.
const keptOpen = 100

func (d *dir) use(folder, file string) *rowFile {
	d.rowsMu.Lock()
	defer d.rowsMu.Unlock()
	key := [2]string{folder, file}
	r := d.rows[key]
	if r == nil {
		r = &rowFile{folder: folder, name: file, path: d.file(folder, file), gate: make(chan struct{}, 1)}
		d.rows[key] = r
	}
	r.users++
	return r
}

func (d *dir) leave(r *rowFile) {
	d.rowsMu.Lock()
	defer d.rowsMu.Unlock()
	r.users--
	if len(d.rows) <= keptOpen {
		return
	}
	looks := 10
	for key, other := range d.rows { // in no order, so that none is kept for ever
		if other.users == 0 {
			other.close()
			delete(d.rows, key)
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
	r.idle.close()
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
