//go:build !linux

package pgtest

import "os"

func kill(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}

// Elsewhere those that serve connections end by themselves.
func children(int) []int { return nil }
func runs(int) bool      { return false }
func stopped(int) bool   { return true }
func reaped(int) bool    { return true }
