package flock

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/interlock-go/interlock/internal/trust"
)

// Holding is a line of /proc/locks: a process that has a lock of a file, or waits for it.
type Holding struct {
	Kind      string // FLOCK, POSIX and others
	Exclusive bool
	Waits     bool
	PID       int // 0 or less: in another container
	File      trust.ID
	Start     int64 // its first byte
}

// Holdings reads who has locked files. The kernel tells of processes that this one can see.
func Holdings() []Holding {
	text, err := os.ReadFile("/proc/locks")
	if err != nil {
		return nil
	}
	return holdings(string(text))
}

func holdings(text string) (all []Holding) {
	exclusive := map[Holding]bool{}
	for line := range strings.Lines(text) {
		// 1: POSIX ADVISORY WRITE 4711 fe:00:1234 120 120
		f := strings.Fields(line)
		waits := len(f) > 1 && f[1] == "->"
		if waits {
			f = slices.Delete(f, 1, 2)
		}
		if len(f) < 8 {
			continue
		}
		pid, _ := strconv.Atoi(f[4])
		h := Holding{Kind: f[1], Exclusive: f[3] == "WRITE", Waits: waits, PID: pid}
		h.Start, _ = strconv.ParseInt(f[6], 10, 64)
		device, inode, _ := strings.Cut(f[5], ":")
		device2, inode, _ := strings.Cut(inode, ":")
		major, _ := strconv.ParseUint(device, 16, 32)
		minor, _ := strconv.ParseUint(device2, 16, 32)
		h.File.Ino, _ = strconv.ParseUint(inode, 10, 64)
		h.File.Dev = major&0xfff<<8 | major&^0xfff<<32 | minor&0xff | minor&^0xff<<12
		// A line comes again if locks come while the kernel tells of them, and only one can be this.
		if h.Kind == "FLOCK" && h.Exclusive && !h.Waits {
			if exclusive[h] {
				continue
			}
			exclusive[h] = true
		}
		all = append(all, h)
	}
	return all
}
