package sqlitelock

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/interlock-go/interlock/backend/sqlitelock/internal/trust"
	"github.com/interlock-go/interlock/internal/flock"
)

// blockers names the processes that keep others from writing, as far as this one
// may see them: those that have the write lock or SQLite's lock on its shared memory.
func (f *file) blockers() []string {
	turn, _ := trust.Identify(f.folder.File("turn"))
	shm, _ := trust.Identify(f.path + "-shm")
	var who []string
	for _, l := range flock.Holdings() {
		if !l.Exclusive || l.Waits || l.Inode == 0 || l.Inode != turn.Ino && l.Inode != shm.Ino {
			continue
		}
		if l.PID > 0 && l.PID != os.Getpid() {
			who = append(who, process(l.PID))
		}
	}
	slices.Sort(who)
	return slices.Compact(who)
}

// process describes a process: its number, name and, if it is stopped, that.
func process(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return fmt.Sprintf("process %d", pid)
	}
	end := strings.LastIndex(string(stat), ")") // the name may have some, and spaces
	_, name, _ := strings.Cut(string(stat[:max(end, 0)]), "(")
	if state := strings.TrimSpace(string(stat[end+1:])); strings.HasPrefix(state, "T") || strings.HasPrefix(state, "t") {
		return fmt.Sprintf("process %d (%s), which is stopped: continue it (kill -CONT %d) or end it", pid, name, pid)
	}
	return fmt.Sprintf("process %d (%s)", pid, name)
}
