//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"
	"errors"
	"io/fs"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

func init() { driver.Register("file", open, "mode") }

func open(_ context.Context, u *driver.URL) (driver.Driver, error) {
	mode := u.Int("mode", 8, defaultMode)
	if err := u.Check(); err != nil {
		return nil, err
	}
	if len(u.Hosts) > 0 || u.User != nil || u.Path == "" {
		return nil, driver.Invalid(errors.New("file: the URL names no directory; write file:relative or file:///absolute/directory"))
	}
	if mode < 0 || mode > 0o777 {
		return nil, driver.Invalid(errors.New("file: mode is not between 0 and 777"))
	}
	return New(u.Path, Mode(fs.FileMode(mode)))
}

// Option changes how a directory is opened.
type Option func(mode *fs.FileMode)

const defaultMode = 0o600

// Mode sets the permissions of files that are made. The owner can always read and write. With
// Mode(0660) the directory should have the set-group-ID bit, so that all files get its group. All who
// share a directory use the same mode.
func Mode(m fs.FileMode) Option { return func(mode *fs.FileMode) { *mode = m.Perm() | defaultMode } }

// New opens a directory of locks, and makes it if there is none. A directory on a network file
// system, one that cannot be written, one in which other users could replace the files, and one that
// was made with another mode are refused with a permanent error.
func New(path string, opts ...Option) (driver.Driver, error) {
	mode := fs.FileMode(defaultMode)
	for _, o := range opts {
		o(&mode)
	}
	s, err := openStore(path, mode)
	if err != nil {
		return nil, driver.Permanent(err)
	}
	return exchange.New(s, s.mailbox), nil
}
