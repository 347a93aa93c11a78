package filelock

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/interlock-go/interlock/driver"
)

// foreignID begins the ID of a program that is none of ours. Its number follows.
const foreignID = "pid-"

// holding is a line of /proc/locks: a process that has a lock of a file, or waits for it.
type holding struct {
	inode     string // as /proc/locks names it
	pid       int
	exclusive bool
	waits     bool
}

// holdings reads who has locked files with flock. The kernel tells of processes that this one can see.
func holdings() (all []holding) {
	text, err := os.ReadFile("/proc/locks")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		waits := len(f) > 1 && f[1] == "->"
		if waits {
			f = slices.Delete(f, 1, 2)
		}
		if len(f) < 6 || f[1] != "FLOCK" {
			continue
		}
		pid, _ := strconv.Atoi(f[4])
		all = append(all, holding{f[5], pid, f[3] == "WRITE", waits})
	}
	return all
}

// inode is how /proc/locks names a file; "" if there is none.
func inode(path string) string {
	var st syscall.Stat_t
	if syscall.Lstat(path, &st) != nil {
		return ""
	}
	major := st.Dev>>8&0xfff | st.Dev>>32&^uint64(0xfff)
	minor := st.Dev&0xff | st.Dev>>12&^uint64(0xff)
	return fmt.Sprintf("%02x:%02x:%d", major, minor, st.Ino)
}

// foreign tells which other programs have locked the file of a queue, or wait for it.
func (s *store) foreign(q *queue) (others []driver.Member) {
	file := inode(s.dir.lockFile(q.Name))
	if file == "" {
		return nil
	}
	ours := map[int]int{} // how many locks of each process are of tickets
	for _, t := range q.Tickets {
		if t.Locked {
			ours[t.Pid]++
		}
	}
	for _, h := range holdings() {
		if h.inode != file {
			continue
		}
		if h.pid == os.Getpid() { // a lock of this client, which is about to unlock it
			continue
		}
		if !h.waits && ours[h.pid] > 0 {
			ours[h.pid]--
			continue
		}
		units := int64(1)
		if h.exclusive {
			units = driver.RWCapacity
		}
		others = append(others, driver.Member{ID: foreignID + strconv.Itoa(h.pid), Owner: program(h.pid), Units: units,
			Held: !h.waits, Foreign: true})
	}
	return others
}

func program(pid int) string {
	if pid <= 0 {
		return "another program, in another container"
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return fmt.Sprintf("another program, pid %d", pid)
	}
	return fmt.Sprintf("another program, pid %d (%s)", pid, bytes.TrimSpace(name))
}

// foreignNames lists the files that are locked.
func (s *store) foreignNames(prefix string) (names []string) {
	files := map[string]bool{}
	for _, h := range holdings() {
		files[h.inode] = true
	}
	if len(files) == 0 {
		return nil
	}
	all, _ := s.dir.names("", prefix)
	for _, name := range all {
		if driver.CheckName(name) == nil && files[inode(s.dir.lockFile(name))] {
			names = append(names, name)
		}
	}
	return names
}
