package sqlitelock

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/interlock-go/interlock/backend/sqlitelock/internal/trust"
)

// blockers names the processes that keep others from writing, as far as this one
// may see them: those that have the write lock or SQLite's lock on its shared memory.
func (f *file) blockers() []string {
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return nil
	}
	turn, _ := trust.Identify(f.folder.File("turn"))
	shm, _ := trust.Identify(f.path + "-shm")
	var who []string
	for line := range bytes.Lines(locks) {
		// 1: POSIX ADVISORY WRITE 4711 fe:00:1234 120 120
		c := strings.Fields(string(line))
		if len(c) < 8 || c[3] != "WRITE" {
			continue
		}
		_, inode, _ := cutLast(c[5], ":")
		n, _ := strconv.ParseUint(inode, 10, 64)
		if n == 0 || n != turn.Ino && n != shm.Ino {
			continue
		}
		pid, _ := strconv.Atoi(c[4])
		if pid > 0 && pid != os.Getpid() {
			who = append(who, process(pid))
		}
	}
	slices.Sort(who)
	return slices.Compact(who)
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// process describes a process: its number, name and, if it is stopped, that.
func process(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return fmt.Sprintf("process %d", pid)
	}
	before, after, _ := cutLast(string(stat), ")") // the name may have spaces
	_, name, _ := strings.Cut(before, "(")
	if state := strings.TrimSpace(after); strings.HasPrefix(state, "T") || strings.HasPrefix(state, "t") {
		return fmt.Sprintf("process %d (%s), which is stopped: continue it (kill -CONT %d) or end it", pid, name, pid)
	}
	return fmt.Sprintf("process %d (%s)", pid, name)
}
