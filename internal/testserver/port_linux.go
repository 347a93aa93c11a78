package testserver

import (
	"fmt"
	"os"
	"sync"
	"syscall"
)

// Reserve returns a port of the loopback interface that is nobody else's until
// release is called: a socket is bound to it, but does not listen. Another one
// that says SO_REUSEADDR can listen there, and so can its successors; nobody is
// given the port by chance in between.
func Reserve() (port int, release func(), err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, fmt.Errorf("reserve a port: %w", os.NewSyscallError("socket", err))
	}
	release = sync.OnceFunc(func() { _ = syscall.Close(fd) }) // later the number is another file's
	err = os.NewSyscallError("setsockopt", syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1))
	if err == nil {
		err = os.NewSyscallError("bind", syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	}
	var name syscall.Sockaddr
	if err == nil {
		name, err = syscall.Getsockname(fd)
	}
	if err != nil {
		release()
		return 0, nil, fmt.Errorf("reserve a port: %w", err)
	}
	return name.(*syscall.SockaddrInet4).Port, release, nil
}
