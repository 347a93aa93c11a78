package redistest

import (
	"net"
	"strconv"
)

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
