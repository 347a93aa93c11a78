package pgtest

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

func kill(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) } // it may have ended

// children are the processes that a process has started and that have not ended.
func children(pid int) []int {
	var all []int
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for text := range strings.FieldsSeq(string(b)) {
		if n, err := strconv.Atoi(text); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// runs says whether a process is more than an entry that nobody has read yet.
func runs(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(b, []byte(") "))
	return len(rest) > 0 && rest[0] != 'Z' && rest[0] != 'X'
}

// reaped says whether the parent of a process knows that it has ended.
func reaped(pid int) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	return err != nil
}
