//go:build unix

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// own refuses a folder below base, which both need not exist yet, that would be another
// user's to replace. That is so under sudo, if it keeps HOME.
func own(base, dir string) error {
	for ; ; dir = filepath.Dir(dir) {
		switch st, err := os.Stat(dir); {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		default:
			if uid := st.Sys().(*syscall.Stat_t).Uid; uid != 0 && uid != uint32(os.Geteuid()) {
				return fmt.Errorf("%s belongs to another user (uid %d); set HOME to your own (sudo -H)", dir, uid)
			}
		}
		if len(dir) <= len(base) {
			return nil
		}
	}
}
