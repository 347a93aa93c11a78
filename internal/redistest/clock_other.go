//go:build !linux

package redistest

import (
	"errors"
	"fmt"
	"time"
)

type clock struct{}

func newClock(string, time.Duration) (*clock, error) {
	return nil, fmt.Errorf("a wall clock for the server: %w", errors.ErrUnsupported)
}

func (*clock) step(time.Duration) {}
func (*clock) env() []string      { return nil }
