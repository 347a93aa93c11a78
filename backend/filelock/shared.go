//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/trust"
)

// A directory is shared if its mode lets other users write the files. Then all of them use the same
// mode, and each file has the group of the directory.

// setMode gives a new folder its mode, whatever the umask: with the set-group-ID bit, by which files in it
// get its group, and the sticky bit if users of these bits can write it, so that none of them replaces what
// another one has made.
func (d *dir) setMode(p place, sticky fs.FileMode) error {
	f, err := p.Root.Open(".")
	if err != nil {
		return named(p.Path, err)
	}
	defer f.Close()
	if int(trust.Owner(p.is)) != os.Geteuid() { // who may write the folder above has put something else there
		return fmt.Errorf("%s belongs to %s; remove it", p.Path, trust.Whose(p.is))
	}
	mode := d.folderMode()
	if mode&sticky != 0 {
		mode |= fs.ModeSticky
	}
	if mode&0o020 != 0 && f.Chmod(mode|fs.ModeSetgid) == nil { // BSD refuses it to who is not in the group, and does not need it
		return nil
	}
	return f.Chmod(mode)
}

// whileUnfinished tries something again if it fails while path is new: another user may have just made
// it, and be about to set its mode.
func (d *dir) whileUnfinished(path string, try func() error) error {
	for n := 0; ; n++ {
		err := try()
		if err == nil || !trust.Shared(d.mode) || n == 100 {
			return err
		}
		if st, unseen := os.Lstat(path); unseen != nil || time.Since(st.ModTime()).Abs() > time.Second {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// denied adds to a refusal by the kernel what this user may not use, and what its owner can do. It is
// permanent: nobody waits for another mode.
func (d *dir) denied(err error) error {
	var at *fs.PathError
	if !errors.Is(err, fs.ErrPermission) || !errors.As(err, &at) {
		return err
	}
	return driver.Permanent(fmt.Errorf("%w%s", err, d.remedy(at.Path)))
}

func (d *dir) remedy(path string) string {
	st, unseen := os.Lstat(path)
	for ; unseen != nil && path != filepath.Dir(path); st, unseen = os.Lstat(path) {
		path = filepath.Dir(path) // which lets nobody make the file, or see it
	}
	if unseen != nil {
		return ""
	}
	is := fmt.Sprintf(": %s belongs to %s and group %d, with mode %o", path, trust.Whose(st), group(st), st.Mode().Perm())
	top, unseen := os.Stat(d.path)
	switch {
	case !trust.Shared(d.mode):
		return is + "; use a directory of your own, or share it (mode=660)"
	case unseen != nil || !strings.HasPrefix(path, d.path): // it is above
		return is
	}
	bits := d.mode
	if st.IsDir() {
		if bits = d.folderMode() | 0o2000; path != d.path || bits&0o002 != 0 {
			bits |= 0o1000
		}
	}
	var commands []string
	if group(st) != group(top) {
		commands = append(commands, fmt.Sprintf("chgrp %d %s", group(top), path))
	}
	if bits.Perm()&^st.Mode() != 0 {
		commands = append(commands, fmt.Sprintf("chmod %o %s", bits, path))
	}
	if commands == nil {
		return is + fmt.Sprintf("; user %d is not in the group", os.Geteuid())
	}
	return is + "; to share it: " + strings.Join(commands, " && ")
}

func group(st fs.FileInfo) int { return int(st.Sys().(*syscall.Stat_t).Gid) }
