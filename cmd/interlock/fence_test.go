//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// fences starts a command of a file, with its own output.
func fences(t *testing.T, token int, file string, args ...string) *started {
	t.Helper()
	return start(t, "", append([]string{"fence", "--token", strconv.Itoa(token), file, "--"}, args...)...)
}

// Promise: a larger token is accepted when nobody is left of the command of a smaller one, though interlock
// was killed, and the command ignores signals and forks.
func TestACommandOfAKilledFenceIsGoneBeforeALargerTokenIsAccepted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, notes := filepath.Join(dir, "fence"), filepath.Join(dir, "notes")
	first := fences(t, 1, file, "job", "hard", notes, "first")
	first.writes(notes, "first")
	next := fences(t, 2, file, "job", "note", notes, "next")
	_ = first.Process.Kill()
	next.ends(0, soon)
	lastIs(t, notes, "next")
}

// Promise: a larger token waits for the command of a smaller one, also for one that closes all
// descriptors that it has inherited, and while interlock is stopped.
func TestALargerTokenWaitsUntilTheCommandOfASmallerOneHasEnded(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "fence")
	first := fences(t, 1, file, "bash", "-c", `for f in /proc/$$/fd/*; do n=${f##*/}; test $n -le 2 || eval "exec $n>&-"; done
		touch held; until test -e go; do sleep 0.02; done; exit 3`)
	first.has("held")
	_ = first.Process.Signal(syscall.SIGSTOP)
	next := fences(t, 2, file, "touch", "done")
	waiter := fences(t, 3, file, "touch", "done")
	waiter.until("it has the file open", func() bool { return opens(waiter.Process.Pid, file) })
	_ = waiter.Process.Signal(syscall.SIGTERM)
	waiter.ends(exitSignal+int(syscall.SIGTERM), soon)
	if _, err := os.Stat(filepath.Join(next.Dir, "done")); err == nil {
		t.Error("the command of the larger token ran beside that of the smaller one")
	}
	_ = first.Process.Signal(syscall.SIGCONT)
	first.touch("go")
	first.ends(3, soon)
	next.ends(0, soon)
	next.has("done")
}

// opens reports whether a process has a file open.
func opens(pid int, file string) bool {
	links, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
	for _, l := range links {
		if to, _ := os.Readlink(l); to == file {
			return true
		}
	}
	return false
}

// Promise: a signal that is sent to a fence reaches its command, whose status is the exit status.
func TestASignalToAFenceReachesItsCommand(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "fence")
	s := fences(t, 1, file, "sh", "-c", `trap 'exit 7' USR1; touch held; while :; do sleep 0.02; done`)
	s.has("held")
	_ = s.Process.Signal(syscall.SIGUSR1)
	s.ends(7, soon)
}
