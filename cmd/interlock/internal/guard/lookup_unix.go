//go:build linux || darwin

package guard

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// LookPath finds the file that a command names, as shells do: through PATH
// unless it contains a slash. A [*StartError] tells a command that was not found
// from one that cannot be executed.
func LookPath(name string) (string, error) {
	if name == "" {
		return "", &StartError{name, 127, fs.ErrNotExist}
	}
	if strings.Contains(name, "/") {
		if err := executable(name); err != nil {
			return "", startError(name, err)
		}
		return name, nil
	}
	var seen error = errors.New("command not found")
	code := 127
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if dir == "" {
			dir = "."
		}
		path := dir + "/" + name
		err := executable(path)
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) && code == 127 {
			seen, code = err, 126
		}
	}
	return "", &StartError{name, code, seen}
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return errors.Unwrap(err)
	}
	if info.IsDir() {
		return syscall.EISDIR
	}
	const xOK = 1
	return syscall.Access(path, xOK)
}

func startError(name string, err error) *StartError {
	code := 126
	switch {
	case errors.Is(err, fs.ErrNotExist):
		code = 127
	case slices.Contains(shortages, err):
		code = 71
	}
	return &StartError{name, code, err}
}

// shortages say nothing about the command.
var shortages = []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.EIO}
