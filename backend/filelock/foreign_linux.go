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
	"github.com/interlock-go/interlock/internal/flock"
)

// foreignID begins the ID of a program that is none of ours. Its number follows.
const foreignID = "pid-"

// holdings reads who has locked files with flock.
func holdings() []flock.Holding {
	return slices.DeleteFunc(flock.Holdings(), func(l flock.Holding) bool { return l.Kind != "FLOCK" })
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
		if pid := q.pids[t.ID]; pid != 0 {
			ours[pid]++
		}
	}
	for _, h := range holdings() {
		if h.File != file {
			continue
		}
		if h.PID == s.pid { // a lock of this client, which is about to unlock it
			continue
		}
		if !h.Waits && ours[h.PID] > 0 {
			ours[h.PID]--
			continue
		}
		units := int64(1)
		if h.Exclusive {
			units = driver.RWCapacity
		}
		others = append(others, driver.Member{ID: foreignID + strconv.Itoa(h.PID), Owner: program(h.PID), Units: units,
			Held: !h.Waits, Foreign: true})
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
		files[h.File] = true
	}
	if len(files) == 0 {
		return nil
	}
	all, _ := s.dir.in(top).list()
	for _, f := range all {
		name, ok := unescape(f)
		if ok && strings.HasPrefix(name, prefix) && driver.CheckName(name) == nil && files[inode(s.dir.lockFile(name))] {
			names = append(names, name)
		}
	}
	return names
}
