//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package filelock

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/interlock-go/interlock/driver"
)

func init() { driver.Register("file", open, "mode") }

func open(context.Context, *driver.URL) (driver.Driver, error) { return New("") }

// Option changes how a directory is opened.
type Option func()

// New fails: there is no flock here, and a lock of another kind would exclude no other program.
func New(string, ...Option) (driver.Driver, error) {
	return nil, fmt.Errorf("file: there is no flock on %s; use sqlite:locks.db instead: %w", runtime.GOOS, errors.ErrUnsupported)
}
