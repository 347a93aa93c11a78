//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver/exchange/rows"
	"github.com/interlock-go/interlock/internal/folder"
	"github.com/interlock-go/interlock/internal/trust"
)

// The folders below <directory>/.interlock.
const (
	queues    = "queues" // rows of queues and their tickets
	cells     = "cells"  // rows of cells
	lives     = "alive"  // a file of each session, which it keeps locked while it lives
	mailboxes = "mail"   // sockets
	top       = ""       // not below: the directory itself, with the files that other programs lock, too
)

// dir is the directory of the locks. Other users may put anything into it, and replace what is in it:
// so all is reached by the descriptors of the folders, as they were when they were looked at. All clients
// of this process share it, so that a crowd of them waits for its turn instead of asking the kernel.
type dir struct {
	path    string // absolute
	mode    fs.FileMode
	clients int      // guarded by directories.mu
	alive   sync.Map // IDs of the sessions of this process: no file needs to prove that they live
	stores  sync.Map // of the clients, by mailbox

	mu  sync.Mutex
	at  map[string]place // by folder
	old map[string]place // before the last replacement: calls under way may use them

	rowsMu sync.Mutex
	rows   map[[2]string]*rowFile // by folder and name; they stay open, so that most transactions open none
}

// directories are those that clients of this process have open, by mode and path.
var directories = struct {
	mu  sync.Mutex
	all map[string]*dir
}{all: map[string]*dir{}}

func (d *dir) key() string { return fmt.Sprint(d.mode, d.path) }

// openDir opens the directory for a client, and looks at it, whether other clients have it open or not.
func openDir(path string, mode fs.FileMode) (*dir, error) {
	directories.mu.Lock()
	defer directories.mu.Unlock()
	d := &dir{mode: mode, rows: map[[2]string]*rowFile{}}
	if err := d.make(path); err != nil {
		return nil, err
	}
	if shared := directories.all[d.key()]; shared != nil {
		closeAll(d.at)
		d = shared
	}
	directories.all[d.key()] = d
	d.clients++
	return d, nil
}

// close is called by each client, when its transactions have ended.
func (d *dir) close() {
	directories.mu.Lock()
	defer directories.mu.Unlock()
	if d.clients--; d.clients > 0 {
		return
	}
	delete(directories.all, d.key())
	for _, r := range d.rows {
		r.close()
	}
	closeAll(d.at)
	closeAll(d.old)
}

// place is a folder that is open.
type place struct {
	folder.Folder
	is     fs.FileInfo
	stands context.Context // until it is opened again, by its name: it was replaced
	end    context.CancelFunc
}

// make makes the directory, if there is none, and opens it.
func (d *dir) make(path string) (err error) {
	if d.path, err = filepath.Abs(path); err != nil {
		return err
	}
	up, err := trust.RealPath(filepath.Dir(d.path))
	if err != nil {
		return err
	}
	made := filepath.Join(up, filepath.Base(d.path))
	return d.denied(d.whileUnfinished(d.path, func() error {
		err := os.Mkdir(made, d.folderMode())
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		d.at, err = d.prepare(err == nil)
		return err
	}))
}

// prepare opens the directory, which may be new, makes the folders that are missing, and looks at all.
func (d *dir) prepare(made bool) (at map[string]place, err error) {
	real, err := trust.RealPath(d.path)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(real + "/") // no pipe is waited for
	if err != nil {
		return nil, named(d.path, err)
	}
	at = map[string]place{}
	defer func() {
		if err != nil {
			closeAll(at)
		}
	}()
	if at[top], err = d.place(root, d.path); err == nil && made {
		err = d.setMode(at[top], 0o002)
	}
	if err == nil {
		err = d.checkPlace()
	}
	if err != nil {
		return at, err
	}
	below, err := d.makeFolder(root, ".interlock")
	if err != nil {
		return at, err
	}
	defer below.Close()
	for _, name := range []string{queues, cells, lives, mailboxes} {
		p, err := d.makeFolder(below.Root, name)
		if err != nil {
			return at, err
		}
		if name == mailboxes {
			p.Folder = folder.Of(p.Path, d.mode, p.Root)
		}
		at[name] = p
	}
	return at, nil
}

func closeAll(at map[string]place) {
	for _, p := range at {
		p.Close()
	}
}

// place is what a folder is that was opened.
func (d *dir) place(root *os.Root, path string) (p place, err error) {
	p.Folder = folder.Folder{Path: path, Mode: d.mode, Root: root}
	p.stands, p.end = context.WithCancel(context.Background())
	p.is, err = root.Stat(".")
	return p, named(path, err)
}

// current returns a folder. If another one has its name now, or none, all are opened again, as they
// were at first. But nobody makes a directory again that somebody has removed.
func (d *dir) current(name string) (place, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stands() {
		at, err := d.prepare(false)
		if err != nil {
			return place{}, err
		}
		closeAll(d.old)
		d.at, d.old = at, d.at
		for _, p := range d.old {
			p.end()
		}
	}
	return d.at[name], nil
}

func (d *dir) stands() bool {
	for name, p := range d.at {
		look := os.Lstat
		if name == top {
			look = os.Stat // the directory itself may be named by a link
		}
		if st, err := look(d.file(name, "")); err != nil || !os.SameFile(st, p.is) {
			return false
		}
	}
	return true
}

// in is current without a look whether it has the name: for what would be missing elsewhere.
func (d *dir) in(name string) place {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at[name]
}

// named has an error name the whole path.
func named(path string, err error) error {
	if at := new(fs.PathError); errors.As(err, &at) {
		return &fs.PathError{Op: strings.TrimSuffix(at.Op, "at"), Path: path, Err: at.Err}
	}
	return err
}

// folderMode lets those search a folder who may write the files in it.
func (d *dir) folderMode() fs.FileMode {
	return 0o700 | d.mode&0o022 | d.mode&0o022<<1 | d.mode&0o022>>1
}

// checkPlace refuses a directory in which other users could replace the files, and one that other
// machines share. Users without a group in common share one that all can write, with the sticky bit.
func (d *dir) checkPlace() error {
	st, err := os.Stat(d.path)
	if err != nil {
		return err
	}
	if d.mode&st.Mode()&0o002 == 0 || st.Mode()&fs.ModeSticky == 0 {
		if err := trust.Place(d.path, st, d.mode); err != nil {
			return err
		}
	}
	return trust.Local(d.path)
}

// makeFolder makes a folder, or refuses one that was made for other users than those of this mode.
func (d *dir) makeFolder(in *os.Root, name string) (p place, err error) {
	path := filepath.Join(d.path, ".interlock", strings.TrimPrefix(name, ".interlock"))
	err = in.Mkdir(name, d.folderMode())
	made := err == nil
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return p, named(path, err)
	}
	st, err := in.Lstat(name)
	switch {
	case err != nil:
		return p, named(path, err)
	case !st.IsDir():
		return p, fmt.Errorf("%s is not a directory; remove it", path)
	case made:
	case st.Mode()&0o022 == 0 && int(trust.Owner(st)) != os.Geteuid():
		return p, fmt.Errorf("%s is for %s alone; be that user (sudo -u), or use another directory", path, trust.Whose(st))
	case st.Mode()&0o022 != d.folderMode()&0o022:
		made := 0o600 | st.Mode()&0o022 | st.Mode()&0o022<<1
		return p, fmt.Errorf("%s was made with mode=%o: use that, or remove it while nobody uses the locks", path, made)
	}
	root, err := in.OpenRoot(name + "/")
	if err != nil {
		return p, named(path, err)
	}
	const bits = fs.ModeSetgid | fs.ModeSticky
	p, err = d.place(root, path)
	switch {
	case err != nil:
	case !os.SameFile(st, p.is):
		err = fmt.Errorf("%s is being replaced; remove it", path)
	case made || trust.Shared(d.mode) && int(trust.Owner(st)) == os.Geteuid() && st.Mode()&bits != bits: // its maker was stopped
		err = d.setMode(p, 0o022)
	}
	if err != nil {
		root.Close()
	}
	return p, err
}

// lockFile is the path of the file that other programs lock, too.
func (d *dir) lockFile(name string) string { return d.file(top, escape(name)) }

func (d *dir) file(folder, name string) string {
	if folder == top {
		return filepath.Join(d.path, name)
	}
	return filepath.Join(d.path, ".interlock", folder, name)
}

// open opens a file, or makes it if there is none. Other programs may have made something else of that
// name, or a link: it is refused, and not waited for.
func (d *dir) open(h *handle) error {
	how := os.O_RDWR
	if h.folder == top { // it is only locked
		how = os.O_RDONLY
	}
	return d.denied(d.whileUnfinished(h.path, func() (err error) {
		for range 100 { // as long as others make and remove it
			in, err := d.current(h.folder)
			if err != nil {
				return err
			}
			f, err := in.OpenFile(h.name, how)
			if errors.Is(err, fs.ErrNotExist) {
				f, err = in.Make(h.name)
			}
			if errors.Is(err, fs.ErrExist) {
				continue
			}
			if err == nil {
				h.file, h.root = f, in.Root
				h.id, err = trust.IDOf(f)
			}
			return named(h.path, err)
		}
		return named(h.path, fs.ErrExist)
	}))
}

// names lists the names of rows that begin with prefix, and what cannot be read.
func (s *store) names(ctx context.Context, folder, prefix string) (names []string, bad unread) {
	in, err := s.dir.current(folder)
	if err != nil {
		return nil, unread{err}
	}
	files, err := in.List()
	bad.add(named(in.Path, err))
	for _, f := range files {
		name, ok := unescape(f)
		if strings.HasPrefix(f, long) {
			var r titled
			bad.ask(ctx, f, func(ctx context.Context) error { return s.transact(ctx, folder, f, &r, func(*tx) error { return nil }) })
			name, ok = string(r), r != ""
		}
		if ok && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names, bad
}

// unread is why some rows of a list cannot be read. They hide no other.
type unread []error

func (u *unread) add(err error) {
	if err != nil {
		*u = append(*u, err)
	}
}

// ask reads a row, and does not wait for long for a process that has locked it: that may be stopped.
func (u *unread) ask(ctx context.Context, name string, read func(ctx context.Context) error) {
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := read(short)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = fmt.Errorf("the row of %q is locked by a process that does not go on", name)
	}
	u.add(err)
}

func (u unread) err() error {
	if len(u) < 2 {
		return errors.Join(u...)
	}
	return fmt.Errorf("%w; %d more cannot be read", u[0], len(u)-1)
}

// titled is the part of each row that comes first.
type titled string

func (r *titled) fields(c *rows.Codec) { rows.Text(c, r) }
