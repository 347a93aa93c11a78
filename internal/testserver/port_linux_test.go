package testserver_test

import (
	"errors"
	"syscall"
	"testing"
)

// kept makes sure that the kernel gives a port to no other process, though no server listens there.
func kept(t *testing.T, port int) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	err = syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("another process is given port %d: %v", port, err)
	}
}
