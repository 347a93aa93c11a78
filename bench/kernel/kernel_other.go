//go:build !linux

package kernel

import (
	"errors"
	"time"
)

// CPU is unknown here.
func CPU(int) time.Duration { return 0 }

// CPUOfAll is unknown here.
func CPUOfAll(int) time.Duration { return 0 }

// Traffic counts nothing here.
type Traffic struct{}

// NewTraffic counts nothing here.
func NewTraffic(_, _ int) *Traffic { return &Traffic{} }

// Read fails.
func (*Traffic) Read() (sent, received float64, err error) {
	return 0, 0, errors.New("only Linux counts them")
}

// OnDisk fails.
func OnDisk(string) (float64, error) { return 0, errors.New("only Linux counts it") }
