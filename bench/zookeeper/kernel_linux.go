package zookeeper

import (
	"errors"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// cpuOf is the CPU time that a process has used so far, to the nanosecond.
func cpuOf(pid int) time.Duration {
	const ofProcess = 2
	var t unix.Timespec
	if unix.ClockGettime(int32(^pid)<<3|ofProcess, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// traffic is what the kernel has counted at the sockets of a port. ZooKeeper has
// no such counters, and whatever stands between it and its clients takes time.
type traffic struct {
	port uint16
	seen map[[2]uint32]passed // by the cookie that names a socket for ever
}

type passed struct{ sent, received uint64 }

func newTraffic(port int) *traffic {
	return &traffic{uint16(port), map[[2]uint32]passed{}}
}

// read returns the bytes that the server has sent and received. What a connection
// had after the last look at it is not in them.
func (t *traffic) read() (sent, received float64, err error) {
	var all []*netlink.InetDiagTCPInfoResp
	for range 10 {
		all, err = netlink.SocketDiagTCPInfo(unix.AF_INET)
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	if err != nil {
		return 0, 0, err
	}
	for _, s := range all {
		if id := s.InetDiagMsg.ID; id.SourcePort == t.port && s.TCPInfo != nil {
			t.seen[id.Cookie] = passed{s.TCPInfo.Bytes_sent - s.TCPInfo.Bytes_retrans, s.TCPInfo.Bytes_received}
		}
	}
	for _, p := range t.seen {
		sent += float64(p.sent)
		received += float64(p.received)
	}
	return sent, received, nil
}
