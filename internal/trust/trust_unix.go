//go:build unix

package trust

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// The rules by which files are refused that users could read, replace or forge without sharing the
// locks. A user who may write a folder can replace what is in it.
// A file that may be written by a group is shared by its users: then owners do not
// count, and the group does.

const (
	Nonblock = syscall.O_NONBLOCK // the open of a pipe does not wait for its other end
	NoFollow = syscall.O_NOFOLLOW
)

func Owner(st fs.FileInfo) uint32 { return st.Sys().(*syscall.Stat_t).Uid }

// Ours reports whether something belongs to this user, or to root, who can do anything.
func Ours(st fs.FileInfo) bool {
	uid := Owner(st)
	return uid == 0 || uid == uint32(os.Geteuid())
}

// Whose names the owner of something.
func Whose(st fs.FileInfo) string {
	uid := strconv.FormatUint(uint64(Owner(st)), 10)
	if u, err := user.LookupId(uid); err == nil && u.Username != "" {
		return u.Username
	}
	return "user " + uid
}

// ourGroup reports whether this user is in the group of something.
func ourGroup(st fs.FileInfo) bool {
	gid := int(st.Sys().(*syscall.Stat_t).Gid)
	all, err := os.Getgroups()
	return gid == os.Getegid() || err == nil && slices.Contains(all, gid)
}

// Shared says that others than its owner may write a file of this mode.
func Shared(mode fs.FileMode) bool { return mode&0o022 != 0 }

// Place refuses a folder for a file of this mode in which others could replace it.
func Place(path string, st fs.FileInfo, mode fs.FileMode) error {
	switch perm := st.Mode().Perm(); {
	case perm&0o002 != 0:
		return fmt.Errorf("every user can write the folder %s, and so replace the file; use a folder that only you (mkdir -m 700) or your group can write", path)
	case Shared(mode):
		return nil
	case !Ours(st):
		return fmt.Errorf("the folder %s belongs to %s, who can replace the file; use one of your own, or share the file with a group (mode=0660)", path, Whose(st))
	case perm&0o020 != 0 && !ourGroup(st):
		return fmt.Errorf("a group that you are not in can write the folder %s, and so replace the file; chmod g-w %s, or share the file with the group (mode=0660)", path, path)
	}
	return nil
}

// File refuses a file that is for another user alone.
func File(path string, st fs.FileInfo) error {
	if Shared(st.Mode()) || Ours(st) {
		return nil
	}
	return fmt.Errorf("%s is for %s alone; be that user (sudo -u %s), or share one with a group (mode=0660)", path, Whose(st), Whose(st))
}

// Folder refuses a folder of locks that another user has made.
func Folder(path string, st fs.FileInfo, mode fs.FileMode) error {
	if Shared(mode) || Ours(st) {
		return nil
	}
	return fmt.Errorf("%s belongs to %s, who can forge all locks; remove it", path, Whose(st))
}

// Admit lets users into a folder by the rights of mode, and no others.
func Admit(dir *os.File, st fs.FileInfo, mode fs.FileMode, made bool) error {
	perm := st.Mode().Perm()
	if !made && perm&^mode == 0 {
		return nil
	}
	if !made {
		mode &= perm
	}
	err := dir.Chmod(mode | st.Mode()&(fs.ModeSetgid|fs.ModeSticky)) // the group of the files is inherited
	if err != nil && !made {
		return fmt.Errorf("%s lets users in who may not write the file: chmod %o %s", dir.Name(), mode, dir.Name())
	}
	return err
}

// RealPath resolves symbolic links, but none of another user, who could lead to anything later.
func RealPath(path string) (string, error) {
	at, rest := "/", strings.Split(path, "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == "" {
			continue
		}
		next := filepath.Join(at, name) // at has no links, so .. is what the kernel takes it for
		st, err := os.Lstat(next)
		if err != nil {
			return "", err
		}
		if st.Mode().Type() != fs.ModeSymlink {
			at = next
			continue
		}
		if links++; links > 40 {
			return "", &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
		}
		if !Ours(st) {
			return "", fmt.Errorf("%s is reached by %s, a symbolic link of %s, who is another user; name the file or folder itself", path, next, Whose(st))
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return at, nil
}
