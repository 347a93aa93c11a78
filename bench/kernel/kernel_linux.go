// Package kernel reads what the kernel counts of a server: its CPU time and the
// bytes at its sockets. Whatever else stood between a server and its clients
// would take time.
package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// CPU is the CPU time that a process has used so far, to the nanosecond.
func CPU(pid int) time.Duration {
	const ofProcess = 2
	var t unix.Timespec
	if unix.ClockGettime(int32(^pid)<<3|ofProcess, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// CPUOfAll is that of a process, of its children, and of those that have ended.
func CPUOfAll(pid int) time.Duration {
	all := CPU(pid) + ended(pid)
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for text := range strings.FieldsSeq(string(b)) {
		if child, err := strconv.Atoi(text); err == nil {
			all += CPU(child)
		}
	}
	return all
}

// ended is the CPU time of children that have ended.
func ended(pid int) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(b, []byte(") "))
	fields := strings.Fields(string(rest))
	const user, system = 13, 14 // cutime and cstime, the 16th and 17th of proc(5)
	if len(fields) <= system {
		return 0
	}
	var ticks int64
	for _, text := range fields[user : system+1] {
		n, _ := strconv.ParseInt(text, 10, 64)
		ticks += n
	}
	const tick = 10 * time.Millisecond // for users it is always that
	return time.Duration(ticks) * tick
}

// Traffic is what has passed the sockets of a server's port.
type Traffic struct {
	port, admin uint16
	seen        map[[2]uint32]passed // by the cookie that names a socket for ever
}

type passed struct{ sent, received uint64 }

// NewTraffic counts at a port, but for the connection that comes from the port
// admin of the same machine.
func NewTraffic(port, admin int) *Traffic {
	return &Traffic{uint16(port), uint16(admin), map[[2]uint32]passed{}}
}

// Read returns the bytes that the server has sent and received. What a connection
// had after the last look at it is not in them.
func (t *Traffic) Read() (sent, received float64, err error) {
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
		id := s.InetDiagMsg.ID
		if id.SourcePort == t.port && s.TCPInfo != nil && (t.admin == 0 || id.DestinationPort != t.admin) {
			t.seen[id.Cookie] = passed{s.TCPInfo.Bytes_sent - s.TCPInfo.Bytes_retrans, s.TCPInfo.Bytes_received}
		}
	}
	for _, p := range t.seen {
		sent += float64(p.sent)
		received += float64(p.received)
	}
	return sent, received, nil
}

// OnDisk is what a folder takes on its disk, in bytes: the blocks of all files and folders in it.
func OnDisk(dir string) (bytes float64, err error) {
	err = filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var s unix.Stat_t
		if err := unix.Lstat(name, &s); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
		bytes += 512 * float64(s.Blocks)
		return nil
	})
	return bytes, err
}
