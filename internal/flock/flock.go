// Package flock locks whole files between processes, with the standard library
// only.
package flock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/interlock-go/interlock/internal/trust"
)

// Open opens a file, which is made with mode 0600 if it does not exist, and
// waits until it has its exclusive lock, or until ctx ends. The lock ends when
// the file is closed, or with its process.
//
// A waiter asks again after 1 to 20 ms: a blocking call would neither end with
// ctx nor with a close.
func Open(ctx context.Context, path string) (*os.File, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		if err = ctx.Err(); err != nil {
			break
		}
		var got bool
		if got, err = Try(f); err != nil {
			err = fmt.Errorf("lock %s: %w", path, err)
			break
		}
		if got {
			return f, nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
	_ = f.Close() // nothing was written
	return nil, err
}

// open opens an ordinary file, or makes it. Nothing else is opened, which could take for ever, and no link
// of another user is followed, who could choose what is locked and written.
func open(path string) (*os.File, error) {
	if path, err := filepath.Abs(path); err != nil {
		return nil, err
	} else if _, err := trust.RealPath(path); err != nil {
		if _, is := os.Lstat(path); is == nil || !errors.Is(err, fs.ErrNotExist) { // a link to nothing, or one that is refused
			return nil, err
		}
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|trust.Nonblock, 0o600)
	if err != nil {
		return nil, err
	}
	if err := trusted(path, f); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// trusted refuses a file that another user can have put there to choose what is locked and written.
func trusted(path string, f *os.File) error {
	st, err := f.Stat()
	switch {
	case err != nil || !st.Mode().IsRegular():
		return fmt.Errorf("%s is not an ordinary file", path)
	case trust.HardLinks(st) > 1:
		return fmt.Errorf("%s has another name (a hard link); name a file that has none", path)
	case trust.Ours(st):
		return nil
	}
	if dir, err := os.Stat(filepath.Dir(path)); err != nil || dir.Mode()&fs.ModeSticky != 0 {
		return fmt.Errorf("%s belongs to %s, and all may make files in its directory; name a file elsewhere", path, trust.Whose(st))
	}
	return nil
}
