package blockers

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/interlock-go/interlock/internal/flock"
	"github.com/interlock-go/interlock/internal/trust"
)

// checkpointing is the byte of the shared memory that a checkpoint of SQLite locks (its wal.c). It stops no writer, and
// may itself wait for one.
const checkpointing = 121

// look names the processes, but not this one. One that has locked a file may wait for one that has locked a later file.
func look(files []string) (who []string) {
	all := flock.Holdings()
	for _, path := range slices.Backward(files) {
		id, err := trust.Identify(path)
		for _, l := range all {
			if err == nil && l.File.Ino == id.Ino && l.Exclusive && !l.Waits && l.Start != checkpointing && l.PID > 0 && l.PID != os.Getpid() {
				who = append(who, process(l.PID))
			}
		}
		if len(who) > 0 {
			break
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
