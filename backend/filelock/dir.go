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
	err = os.Mkdir(d.path, d.folderMode())
	if err == nil {
		err = os.Chmod(d.path, d.folderMode()) // whatever the umask
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return d, err
	}
	if err := d.checkPlace(); err != nil {
		return d, err
	}
	for _, folder := range []string{"", queues, cells, lives, mailboxes} {
		if err := d.makeFolder(filepath.Join(d.path, ".interlock", folder)); err != nil {
			return d, err
		}
	}
	return d, nil
}

// folderMode lets those search a folder who may write the files in it.
func (d dir) folderMode() fs.FileMode {
	return 0o700 | d.mode&0o022 | d.mode&0o022<<1 | d.mode&0o022>>1
}

func (d dir) shared() bool { return d.mode&0o022 != 0 }

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
		return fmt.Errorf("every user can write %s, and so replace the locks: chmod o-w %s", d.path, d.path)
	case perm&0o020 != 0 && perm&fs.ModeSticky == 0 && !d.shared() && !ours(st):
		return fmt.Errorf("a group can write %s, and so replace the locks; use a directory of your own, or share it (mode=0660)", d.path)
	}
	return checkFilesystem(d.path)
}

func (d dir) makeFolder(path string) error {
	err := os.Mkdir(path, d.folderMode())
	if err == nil {
		return os.Chmod(path, d.folderMode()) // whatever the umask
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
	case !ours(st) && !d.shared():
		return fmt.Errorf("%s belongs to another user, who can forge all locks; use a directory of your own, or share it (mode=0660)", path)
	case st.Mode()&0o022&^d.folderMode() != 0:
		return fmt.Errorf("%s can be written by users who do not share the locks: chmod %o %s", path, d.folderMode(), path)
	}
	return nil
}

// ours reports whether something belongs to this user, or to root, who can do anything.
func ours(st fs.FileInfo) bool {
	uid := st.Sys().(*syscall.Stat_t).Uid
	return uid == 0 || uid == uint32(os.Geteuid())
}

// lockFile is the path of the file that other programs lock, too.
func (d dir) lockFile(name string) string { return filepath.Join(d.path, escape(name)) }

func (d dir) file(folder, name string) string {
	return filepath.Join(d.path, ".interlock", folder, name)
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
