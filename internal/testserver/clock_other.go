//go:build !linux

package testserver

import (
	"errors"
	"fmt"
	"time"
)

// Clock would be the offset of a server's wall clock.
type Clock struct{}

// NewClock fails.
func NewClock(string, time.Duration) (*Clock, error) {
	return nil, fmt.Errorf("a wall clock for the server: %w", errors.ErrUnsupported)
}

// Step does nothing.
func (*Clock) Step(time.Duration) {}

// Env is empty.
func (*Clock) Env() []string { return nil }
