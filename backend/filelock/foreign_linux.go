package filelock

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/flock"
	"github.com/interlock-go/interlock/internal/trust"
)

// foreignID begins the ID of a program that is none of ours. Its number follows.
const foreignID = "pid-"

// holdings reads who has locked files with flock.
func holdings() []flock.Holding {
	return slices.DeleteFunc(flock.Holdings(), func(l flock.Holding) bool { return l.Kind != "FLOCK" })
}

// foreign tells which other programs have locked the file of a queue, or wait for it.
func (s *store) foreign(q *queue) (others []driver.Member) {
	file, err := trust.Identify(s.dir.lockFile(q.Name))
	if err != nil {
		return nil
	}
	ours := map[int]int{} // how many locks of each process are of tickets
	for _, t := range q.Tickets {
		ours[t.PID]++
	}
	for _, h := range holdings() {
		switch {
		case h.File != file, h.PID == s.pid: // which is about to unlock it
			continue
		case !h.Waits && ours[h.PID] > 0:
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
	locked := map[trust.ID]bool{}
	for _, h := range holdings() {
		locked[h.File] = true
	}
	if len(locked) == 0 {
		return nil
	}
	all, _ := s.dir.in(top).List()
	for _, f := range all {
		name, ok := unescape(f)
		if !ok || !strings.HasPrefix(name, prefix) || driver.CheckName(name) != nil {
			continue
		}
		if file, err := trust.Identify(s.dir.lockFile(name)); err == nil && locked[file] {
			names = append(names, name)
		}
	}
	return names
}
