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

// signalNames are those that programs may be sent, without SIG.
func signalNames() (names []string) {
	for s := syscall.Signal(1); s < 32; s++ {
		if name := unix.SignalName(s); name != "" && s != syscall.SIGKILL && s != syscall.SIGSTOP {
			names = append(names, strings.TrimPrefix(name, "SIG"))
		}
	}
	return names
}
