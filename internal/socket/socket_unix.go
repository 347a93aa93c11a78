//go:build unix

// Package socket says which Unix sockets nobody else can have made.
package socket

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Guarded reports whether only root, this user, and those to whom its folder was given can have made the socket with
// this path. Everybody can listen on a port of this machine, on an abstract socket (@name), and in a folder like /tmp,
// before the server does. PostgreSQL's and MySQL's clients ask before they give a password to whoever answers.
func Guarded(path string) bool {
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil || path == "" || path[0] == '@' {
		return false
	}
	real, err := filepath.EvalSymlinks(dir)
	return err == nil && guarded(dir) && guarded(real)
}

// guarded looks at a folder and at those above it. Only in one with the sticky bit may everybody make files, and
// there it counts whose the next folder is.
func guarded(dir string) bool {
	ours := false
	for {
		st, err := os.Lstat(dir)
		if err != nil {
			return false
		}
		if st.Mode()&fs.ModeSymlink == 0 && st.Mode()&0o002 != 0 && (!ours || st.Mode()&fs.ModeSticky == 0) {
			return false
		}
		owner := st.Sys().(*syscall.Stat_t).Uid
		ours = owner == 0 || int(owner) == os.Geteuid()
		up := filepath.Dir(dir)
		if up == dir {
			return true
		}
		dir = up
	}
}
