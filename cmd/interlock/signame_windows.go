package main

import (
	"errors"
	"syscall"
)

func signalNamed(string) (syscall.Signal, error) {
	return 0, errors.New("windows has no signals")
}

func signalNames() []string { return nil }
