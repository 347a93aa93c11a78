//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package flock

import (
	"errors"
	"os"
)

// Try, Share, Lock and Unlock do not exist on this system.
func Try(*os.File) (bool, error) { return false, errors.ErrUnsupported }

func Share(*os.File) (bool, error) { return false, errors.ErrUnsupported }

func Lock(*os.File) error { return errors.ErrUnsupported }

func Unlock(*os.File) error { return errors.ErrUnsupported }
