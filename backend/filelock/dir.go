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
	"syscall"
)

// The folders below <directory>/.interlock.
const (
	queues    = "queues" // rows of queues and their tickets
	cells     = "cells"  // rows of cells
	lives     = "live"   // a file of each session, which it keeps locked while it lives
	mailboxes = "mail"   // sockets
)

// dir is the directory of the locks.
type dir struct {
	path string // absolute
	mode fs.FileMode
}

func openDir(path string, mode fs.FileMode) (d dir, err error) {
	if d.path, err = filepath.Abs(path); err != nil {
		return d, err
	}
	d.mode = mode
	err = d.whileUnfinished(d.path, d.prepare)
	return d, d.denied(err)
}

// prepare makes the folders that are missing, and looks at the others.
func (d dir) prepare() error {
	err := os.Mkdir(d.path, d.folderMode())
	if err == nil {
		err = d.setMode(d.path, fs.ModeSticky)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := d.checkPlace(); err != nil {
		return err
	}
	for _, folder := range []string{"", queues, cells, lives, mailboxes} {
		if err := d.makeFolder(filepath.Join(d.path, ".interlock", folder)); err != nil {
			return err
		}
	}
	return nil
}

// folderMode lets those search a folder who may write the files in it.
func (d dir) folderMode() fs.FileMode {
	return 0o700 | d.mode&0o022 | d.mode&0o022<<1 | d.mode&0o022>>1
}

// checkPlace refuses a directory in which other users could replace the files, and one that other
// machines share.
func (d dir) checkPlace() error {
	st, err := os.Stat(d.path)
	if err != nil {
		return err
	}
	switch perm := st.Mode(); {
	case !perm.IsDir():
		return fmt.Errorf("%s is not a directory", d.path)
	case perm&0o002 != 0 && perm&fs.ModeSticky == 0:
		return fmt.Errorf("every user can write %s, and so replace the locks: chmod o-w %[1]s, or +t", d.path)
	case !ours(st) && !d.shared():
		return fmt.Errorf("%s belongs to %s, who can replace the locks; use a directory of your own, or share it (mode=660)", d.path, whose(st))
	}
	return checkFilesystem(d.path)
}

// makeFolder makes a folder, or refuses one that was made for other users than those of this mode.
func (d dir) makeFolder(path string) error {
	err := os.Mkdir(path, d.folderMode())
	if err == nil {
		return d.setMode(path, 0)
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	st, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case !st.IsDir():
		return fmt.Errorf("%s is not a directory; remove it", path)
	case st.Mode()&0o022 == 0 && owner(st) != os.Geteuid():
		return fmt.Errorf("%s is for %s alone; be that user (sudo -u), or use another directory", path, whose(st))
	case st.Mode()&0o022 != d.folderMode()&0o022:
		made := 0o600 | st.Mode()&0o022 | st.Mode()&0o022<<1
		return fmt.Errorf("%s was made with mode=%o: use that, or remove it while nobody uses the locks", path, made)
	case d.shared() && owner(st) == os.Geteuid() && st.Mode()&fs.ModeSetgid == 0: // an earlier release has made it
		return d.setMode(path, 0)
	}
	return nil
}

// lockFile is the path of the file that other programs lock, too.
func (d dir) lockFile(name string) string { return filepath.Join(d.path, escape(name)) }

func (d dir) file(folder, name string) string {
	return filepath.Join(d.path, ".interlock", folder, name)
}

// open opens a file, or makes it if there is none. A link is not followed.
func (d dir) open(path string, how int) (f *os.File, err error) {
	err = d.whileUnfinished(path, func() (err error) {
		for range 100 { // as long as others make and remove it
			if f, err = os.OpenFile(path, how|syscall.O_NOFOLLOW, 0); errors.Is(err, fs.ErrNotExist) {
				f, err = d.create(path)
			}
			if !errors.Is(err, fs.ErrExist) {
				break
			}
		}
		return err
	})
	return f, d.denied(err)
}

// create makes a file that nobody else has.
func (d dir) create(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, d.mode)
	if err == nil {
		if err = f.Chmod(d.mode); err != nil { // whatever the umask
			f.Close()
		}
	}
	return f, err
}

// names lists the names of rows that begin with prefix.
func (s *store) names(ctx context.Context, folder, prefix string) (names []string, err error) {
	files, err := os.ReadDir(s.dir.file(folder, ""))
	for _, f := range files {
		name, ok := unescape(f.Name())
		if strings.HasPrefix(f.Name(), long) {
			var r named
			ok = s.transact(ctx, folder, f.Name(), &r, func(*tx) error { return nil }) == nil && r != ""
			name = string(r)
		}
		if ok && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names, err
}

// named is the part of each row that comes first.
type named string

func (r *named) fields(c *codec) { textOf(c, r) }
