//go:build !linux

package testserver

import (
	"errors"
	"time"
)

type clock struct{}

func newClock(string) (*clock, error) { return nil, errors.ErrUnsupported }
func (*clock) step(time.Duration)     {}
func (*clock) env() []string          { return nil }
