package testserver

import (
	"net"
	"strconv"
)

// Address is a port of the loopback interface.
func Address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
