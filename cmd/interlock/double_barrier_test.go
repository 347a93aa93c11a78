//go:build linux

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/redistest"
	"github.com/interlock-go/interlock/internal/zktest"
)

// onEachMeeting runs a test on each backend on which members are killed, with URLs of some TTL.
func onEachMeeting(t *testing.T, f func(t *testing.T, url func(ttl string) string)) {
	for name, start := range map[string]func(*testing.T) string{
		"SQLite":    func(t *testing.T) string { return testURL(t, "?ttl=") },
		"Redis":     func(t *testing.T) string { return redistest.Start(t).URL() + "?ttl=" },
		"ZooKeeper": func(t *testing.T) string { return "zk://" + zktest.Start(t).Addr + "/?ttl=" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := start(t)
			f(t, func(ttl string) string { return url + ttl })
		})
	}
}

// members waits until so many are at the double barrier, be it that they wait or are inside.
func members(t *testing.T, url, name string, n int) {
	t.Helper()
	busy.Until(t, "there are as many members as there should be", func() bool {
		out, _ := cli(t, url, "show", "--json", name).Output()
		return strings.Count(string(out), `"id"`) == n
	})
}

// Promise: a member that is killed while it waits counts no longer than until the backend has noticed, and its
// command does not run.
func TestAMemberThatIsKilledWhileItWaitsDoesNotCount(t *testing.T) {
	t.Parallel()
	onEachMeeting(t, func(t *testing.T, url func(string) string) {
		u := url("4s")
		killed := start(t, u, "barrier", "double", "d", "2", "--", "touch", "ran")
		members(t, u, "d", 1)
		_ = killed.Process.Kill()
		<-killed.over
		members(t, u, "d", 0)
		first := start(t, u, "barrier", "double", "-w", "1", "d", "2", "--", "true")
		first.ends(exitBusy, soon)
		first = start(t, u, "barrier", "double", "d", "2", "--", "touch", "ran")
		start(t, u, "barrier", "double", "d", "2", "--", "true").ends(0, soon)
		first.ends(0, soon)
		first.has("ran")
		if _, err := os.Stat(filepath.Join(killed.Dir, "ran")); err == nil {
			t.Error("the command of the one that was killed has run")
		}
	})
}

// Promise: until the backend has noticed it, a member that was killed while it waited counts: the round can
// begin with it, and nobody waits for it at the end longer than that.
func TestARoundCanBeginWithAMemberThatWasKilled(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL() + "?ttl=8s"
	killed := start(t, url, "barrier", "double", "d", "2", "--", "touch", "ran")
	members(t, url, "d", 1)
	_ = killed.Process.Kill()
	<-killed.over
	start(t, url, "barrier", "double", "d", "2", "--", "true").ends(0, soon)
}

// Promise: the command of a member whose interlock is killed is gone before the others count it as having left, which
// is long before the TTL has run out.
func TestTheCommandOfAKilledMemberIsGoneBeforeTheOthersLeave(t *testing.T) {
	t.Parallel()
	onEachMeeting(t, func(t *testing.T, url func(string) string) {
		u, notes := url("10m"), filepath.Join(t.TempDir(), "notes")
		if strings.HasPrefix(u, "zk") {
			u = url("40s") // a server with a short tick grants no more
		}
		killed := start(t, u, "barrier", "double", "d", "2", "--", "job", "hard", notes, "killed")
		members(t, u, "d", 1)
		other := start(t, u, "barrier", "double", "--status-fd", "3", "d", "2", "--", "true")
		other.until("it waits for the others to leave", func() bool {
			b, _ := os.ReadFile(filepath.Join(other.Dir, "status"))
			return bytes.Contains(b, []byte("leaving"))
		})
		killed.writes(notes, "killed")
		_ = killed.Process.Kill()
		began := time.Now()
		other.ends(0, soon)
		note(notes, "left")
		t.Logf("the other has left %v after the kill", time.Since(began))
		members(t, u, "d", 0) // takes a while, in which one that is left would write
		lastIs(t, notes, "left")
	})
}

// Promise: a member that is killed while it waits for the others at the end has left.
func TestAMemberThatIsKilledAtTheEndHasLeft(t *testing.T) {
	t.Parallel()
	onEachMeeting(t, func(t *testing.T, url func(string) string) {
		u := url("40s")
		killed := start(t, u, "barrier", "double", "-v", "d", "2", "--", "true")
		other := start(t, u, "barrier", "double", "d", "2", "-c", "until test -e go; do sleep 0.02; done; exit 3")
		killed.says("waiting until the other members of d have left")
		members(t, u, "d", 1)
		_ = killed.Process.Kill()
		<-killed.over
		members(t, u, "d", 1)
		other.touch("go")
		other.ends(3, 20*time.Second)
		members(t, u, "d", 0)
	})
}

// Promise: a signal ends the wait for the members, and leaves no place behind; it reaches the command while
// that runs; and it ends the wait at the end.
func TestSignalsToAMember(t *testing.T) {
	t.Parallel()
	url := testURL(t, "?"+longTTL)
	waits := start(t, url, "barrier", "double", "d", "2", "--", "touch", "ran")
	members(t, url, "d", 1)
	_ = waits.Process.Signal(syscall.SIGTERM)
	waits.ends(exitSignal+int(syscall.SIGTERM), soon)
	members(t, url, "d", 0)

	works := start(t, url, "barrier", "double", "d", "2", "--", "job", "wait", "held")
	leaves := start(t, url, "barrier", "double", "-v", "d", "2", "--", "true")
	works.has("held")
	leaves.says("waiting until the other members of d have left")
	leaves.says("1 of 2 members of d have not left")
	_ = leaves.Process.Signal(syscall.SIGINT)
	leaves.ends(exitSignal+int(syscall.SIGINT), soon)
	_ = works.Process.Signal(syscall.SIGUSR1)
	works.ends(0, soon)
}

// Promise: a member waits for no backend that is away when a signal comes, and a second signal ends it at once.
func TestASignalEndsAMemberWithoutABackend(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	url := s.URL() + "?" + longTTL
	works := start(t, url, "barrier", "double", "d", "2", "--", "job", "wait", "held")
	members(t, url, "d", 1)
	start(t, url, "barrier", "double", "d", "3", "--", "true").ends(exitUsage, soon) // another number
	leaves := start(t, url, "barrier", "double", "-v", "d", "2", "--", "true")
	works.has("held")
	waits := start(t, url, "barrier", "double", "d", "2", "--", "true")
	hangs := start(t, url, "barrier", "double", "d", "2", "--", "true")
	leaves.says("waiting until the other members of d have left")
	members(t, url, "d", 3)
	s.Pause()
	defer s.Resume()
	waits.says("the backend does not answer")
	_ = works.Process.Signal(syscall.SIGUSR1) // its command ends
	works.says("could not be given back")
	for _, r := range []*started{works, leaves, waits} {
		_ = r.Process.Signal(syscall.SIGTERM)
		r.ends(exitSignal+int(syscall.SIGTERM), soon/2)
	}
	_ = hangs.Process.Signal(syscall.SIGINT)
	_ = hangs.Process.Signal(syscall.SIGTERM)
	hangs.ends(exitSignal+int(syscall.SIGTERM), soon)
}

// Promise: a member that was stopped past its TTL while it waited comes again, and the command of one that was
// stopped while it ran is ended.
func TestAMemberThatWasStopped(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL() + "?ttl=4s"
	waits := start(t, url, "barrier", "double", "d", "2", "--", "touch", "ran")
	members(t, url, "d", 1)
	_ = waits.Process.Signal(syscall.SIGSTOP)
	members(t, url, "d", 0)
	_ = waits.Process.Signal(syscall.SIGCONT)
	members(t, url, "d", 1)
	stops := start(t, url, "barrier", "double", "d", "2", "--", "sleep", "1000")
	waits.has("ran")
	_ = stops.Process.Signal(syscall.SIGSTOP)
	waits.ends(0, soon)
	_ = stops.Process.Signal(syscall.SIGCONT)
	stops.ends(exitLost, soon)
}
