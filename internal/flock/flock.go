// Package flock locks whole files between processes, with the standard library
// only.
package flock

import (
	"context"
	"fmt"
	"os"
	"time"
)

// Open opens a file, which is made with mode 0600 if it does not exist, and
// waits until it has its exclusive lock, or until ctx ends. The lock ends when
// the file is closed, or with its process.
//
// A waiter asks again after 1 to 20 ms: a blocking call would neither end with
// ctx nor with a close.
func Open(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
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
