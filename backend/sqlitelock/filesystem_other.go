//go:build !linux && !darwin && !freebsd

package sqlitelock

import "errors"

// filesystem knows nothing here.
func filesystem(string) (filesystemKind, error) {
	return filesystemKind{name: "a file system of unknown kind", unknown: true}, nil
}

// space returns how many bytes are free for us.
func space(string) (int64, error) { return 0, errors.ErrUnsupported }
