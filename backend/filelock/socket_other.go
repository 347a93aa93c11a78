//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package filelock

import (
	"io/fs"
	"os"
)

// chmodSocket gives a socket a mode.
func chmodSocket(path string, mode fs.FileMode) error { return os.Chmod(path, mode) }
