package blockers

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/interlock-go/interlock/internal/flock"
	"github.com/interlock-go/interlock/internal/trust"
)

// look names the processes, but not this one.
func look(files []string) (who []string) {
	var inodes []uint64
	for _, path := range files {
		if id, err := trust.Identify(path); err == nil {
			inodes = append(inodes, id.Ino)
		}
	}
	for _, l := range flock.Holdings() {
		if l.Exclusive && !l.Waits && slices.Contains(inodes, l.File.Ino) && l.PID > 0 && l.PID != os.Getpid() {
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
