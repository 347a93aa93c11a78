//go:build unix

package main

import (
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// signalNamed takes TERM, SIGTERM or sigterm.
func signalNamed(name string) (syscall.Signal, error) {
	full := strings.ToUpper(name)
	if !strings.HasPrefix(full, "SIG") {
		full = "SIG" + full
	}
	if s := unix.SignalNum(full); s != 0 {
		return s, nil
	}
	return 0, fmt.Errorf("unknown signal %q", name)
}
