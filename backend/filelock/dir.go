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
// so all is reached by the descriptors of the folders, as they were when they were looked at.
type dir struct {
	path     string // absolute
	mode     fs.FileMode
	replaced func() // called when the directory was opened again

	mu  sync.Mutex
	at  map[string]place // by folder
	old map[string]place // before the last replacement: calls under way may use them
}

// place is a folder that is open.
type place struct {
	folder.Folder
	is fs.FileInfo
}

func openDir(path string, mode fs.FileMode) (d *dir, err error) {
	d = &dir{mode: mode, replaced: func() {}}
	if d.path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	up, err := ownPath(filepath.Dir(d.path))
	if err != nil {
		return nil, err
	}
	made := filepath.Join(up, filepath.Base(d.path))
	err = d.whileUnfinished(d.path, func() error {
		err := os.Mkdir(made, d.folderMode())
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		d.at, err = d.prepare(err == nil)
		return err
	})
	return d, d.denied(err)
}

// ownPath resolves links, but none of another user, who could lead to anything later.
func ownPath(path string) (string, error) {
	real, foreign, err := trust.RealPath(path)
	if foreign && err == nil {
		err = fmt.Errorf("%s is reached by a symbolic link of another user; name the directory itself", path)
	}
	return real, err
}

// prepare opens the directory, which may be new, makes the folders that are missing, and looks at all.
func (d *dir) prepare(made bool) (_ map[string]place, err error) {
	real, err := ownPath(d.path)
	if err != nil {
		return nil, err
	}
	if st, err := os.Stat(real); err == nil && !st.IsDir() {
		return nil, fmt.Errorf("%s is not a directory", d.path)
	}
	at := map[string]place{}
	defer func() {
		if err != nil {
			for _, p := range at {
				p.Close()
			}
		}
	}()
	root, err := os.OpenRoot(real + "/") // no pipe is waited for
	if err != nil {
		return nil, named(d.path, err)
	}
	p, err := d.place(root, d.path)
	if err != nil {
		return nil, err
	}
	at[top] = p
	if made {
		if err := d.setMode(p, 0o002); err != nil {
			return nil, err
		}
	}
	if err := d.checkPlace(); err != nil {
		return nil, err
	}
	below, err := d.makeFolder(root, ".interlock")
	if err != nil {
		return nil, err
	}
	defer below.Close()
	for _, name := range []string{queues, cells, lives, mailboxes} {
		if at[name], err = d.makeFolder(below.Root, name); err != nil {
			delete(at, name)
			return nil, err
		}
	}
	mail := at[mailboxes]
	mail.Folder = folder.Of(mail.Path, d.mode, mail.Root)
	at[mailboxes] = mail
	return at, nil
}

func (d *dir) close() {
	for _, p := range d.at {
		p.Close()
	}
	for _, p := range d.old {
		p.Close()
	}
}

// place is what a folder is that was opened. It closes the folder if it cannot tell.
func (d *dir) place(root *os.Root, path string) (p place, err error) {
	st, err := root.Stat(".")
	if err != nil {
		root.Close()
		return p, named(path, err)
	}
	return place{folder.Folder{Path: path, Mode: d.mode, Root: root}, st}, nil
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
		for _, p := range d.old {
			p.Close()
		}
		d.at, d.old = at, d.at
		go d.replaced()
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

// list lists a folder.
func (p place) list() ([]string, error) {
	f, err := p.Root.Open(".")
	if err != nil {
		return nil, named(p.Path, err)
	}
	defer f.Close()
	return f.Readdirnames(-1)
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
	case st.Mode()&0o022 == 0 && owner(st) != os.Geteuid():
		return p, fmt.Errorf("%s is for %s alone; be that user (sudo -u), or use another directory", path, whose(st))
	case st.Mode()&0o022 != d.folderMode()&0o022:
		made := 0o600 | st.Mode()&0o022 | st.Mode()&0o022<<1
		return p, fmt.Errorf("%s was made with mode=%o: use that, or remove it while nobody uses the locks", path, made)
	}
	root, err := in.OpenRoot(name + "/")
	if err != nil {
		return p, named(path, err)
	}
	if p, err = d.place(root, path); err != nil {
		return p, err
	}
	const bits = fs.ModeSetgid | fs.ModeSticky
	if !os.SameFile(st, p.is) {
		err = fmt.Errorf("%s is being replaced; remove it", path)
	} else if made || d.shared() && owner(st) == os.Geteuid() && st.Mode()&bits != bits { // an earlier release has made it
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
func (d *dir) open(folder, name string, how int) (f *os.File, in place, err error) {
	path := d.file(folder, name)
	err = d.whileUnfinished(path, func() (err error) {
		for range 100 { // as long as others make and remove it
			if in, err = d.current(folder); err != nil {
				return err
			}
			if f, err = in.OpenFile(name, how); errors.Is(err, fs.ErrNotExist) {
				f, err = in.Make(name)
			}
			if !errors.Is(err, fs.ErrExist) {
				break
			}
		}
		return named(path, err)
	})
	return f, in, d.denied(err)
}

// names lists the names of rows that begin with prefix, and what cannot be read.
func (s *store) names(ctx context.Context, folder, prefix string) (names []string, bad unread) {
	in, err := s.dir.current(folder)
	if err != nil {
		return nil, unread{err}
	}
	files, err := in.list()
	bad.add(err)
	for _, f := range files {
		name, ok := unescape(f)
		if strings.HasPrefix(f, long) {
			var r titled
			bad.add(s.transact(ctx, folder, f, &r, func(*tx) error { return nil }))
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

func (u unread) err() error {
	if len(u) < 2 {
		return errors.Join(u...)
	}
	return fmt.Errorf("%w; %d more cannot be read", u[0], len(u)-1)
}

// titled is the part of each row that comes first.
type titled string

func (r *titled) fields(c *codec) { textOf(c, r) }
