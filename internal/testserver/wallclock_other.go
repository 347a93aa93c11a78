//go:build !(linux && amd64)

package testserver

import (
	"errors"
	"time"
)

// SetWallClock fails.
func SetWallClock(int, time.Duration) error { return errors.ErrUnsupported }
