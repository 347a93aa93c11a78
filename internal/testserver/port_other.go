//go:build !linux

package testserver

import (
	"fmt"
	"net"
)

// Reserve returns a port of the loopback interface that was free just now.
func Reserve() (port int, release func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, nil, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, func() {}, nil
}
