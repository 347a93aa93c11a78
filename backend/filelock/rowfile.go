//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"fmt"
	"os"

	"github.com/interlock-go/interlock/internal/trust"
)

// handle is a file of a name, which this process locks: a row, or a file that other programs lock, too.
type handle struct {
	folder, name string
	path         string
	file         *os.File // nil if it is not open
	root         *os.Root // its folder
	id           trust.ID
}

func (d *dir) handle(folder, name string) handle {
	return handle{folder: folder, name: name, path: d.file(folder, name)}
}

// lock tries to lock the file that has the name now. One that was removed, or replaced, is not the one that others
// lock.
func (h *handle) lock(d *dir, try func(*os.File) (bool, error)) (locked bool, err error) {
	for range 100 {
		if h.file == nil {
			if err = d.open(h); err != nil {
				return false, err
			}
		}
		locked, err = try(h.file)
		if err == nil && h.stands() {
			return locked, nil
		}
		if h.close(); err != nil {
			return false, err
		}
	}
	return false, fmt.Errorf("%s is replaced all the time", h.path)
}

// stands reports whether the file has its name.
func (h *handle) stands() bool {
	now, err := trust.Identify(h.path)
	return err == nil && now == h.id
}

func (h *handle) close() {
	if h.file != nil {
		h.file.Close()
	}
	h.file = nil
}

// rowFile is the file of a row, as this process has it open. It is locked by transactions, and so
// never replaced.
type rowFile struct {
	page
	gate chan struct{} // of the goroutines of this process
	out  []byte        // room for what is written
	idle handle        // for the next ticket: the file of the queue that other programs lock, too

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
		r = &rowFile{page: page{handle: d.handle(folder, file)}, gate: make(chan struct{}, 1), idle: d.handle(top, file)}
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
	r.handle.close()
	r.idle.close()
}
