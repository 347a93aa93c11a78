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
func runs(pid int) bool { return !strings.ContainsAny(state(pid), "ZX") }

// stopped says whether a signal has stopped a process.
func stopped(pid int) bool { return state(pid) == "T" }

// state is a letter. That of a process that is not there is X.
func state(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "X"
	}
	_, rest, _ := bytes.Cut(b, []byte(") "))
	return string(rest[:min(1, len(rest))])
}

// reaped says whether the parent of a process knows that it has ended.
func reaped(pid int) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	return err != nil
}
