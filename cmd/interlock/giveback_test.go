//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

// child waits for the child of a process, and returns its pid.
func child(t *testing.T, parent int) (pid int) {
	t.Helper()
	busy.Until(t, "process "+strconv.Itoa(parent)+" has a child", func() bool {
		lists, _ := filepath.Glob("/proc/" + strconv.Itoa(parent) + "/task/*/children")
		for _, list := range lists {
			b, _ := os.ReadFile(list)
			if first := strings.Fields(string(b)); len(first) > 0 {
				pid, _ = strconv.Atoi(first[0])
			}
		}
		return pid != 0
	})
	return pid
}

// guarded is a job with the processes that guard it.
type guarded struct {
	*started
	warden, guard int
}

func (s *started) guarded() guarded {
	s.t.Helper()
	warden := child(s.t, s.Process.Pid)
	return guarded{s, warden, child(s.t, warden)}
}

// gone waits until the guard has ended, and so has given back what it gives back.
func (g guarded) gone() {
	g.t.Helper()
	busy.Until(g.t, "the guard has ended", func() bool {
		b, _ := os.ReadFile("/proc/" + strconv.Itoa(g.guard) + "/cmdline")
		return len(b) == 0
	})
}

// hostPid is the owner that a process shows.
func hostPid(pid int) string {
	host, _ := os.Hostname()
	return host + ":" + strconv.Itoa(pid)
}

// holders reads who holds a lock.
func holders(t *testing.T, url, name string) []interlock.Member {
	t.Helper()
	out, err := cli(t, url, "show", "--json", name).Output()
	var q interlock.Queue
	if err == nil {
		err = json.Unmarshal(out, &q)
	}
	if err != nil {
		t.Fatalf("show %s: %v: %s", name, err, out)
	}
	return q.Holders
}

// Promise: after SIGKILL of interlock the next one need not wait for the TTL, which is two
// minutes here, and comes when nobody of the job is left: that ignores TERM, and has
// grandchildren in sessions of their own.
func TestAKilledInterlockLeavesTheLockToTheNextAtOnce(t *testing.T) {
	t.Parallel()
	onEachBackend(t, func(t *testing.T, _ server, url string) {
		url += longTTL
		for how, before := range map[string]func(guarded){
			"killed":        func(guarded) {},
			"guard-stopped": func(g guarded) { _ = syscall.Kill(g.guard, syscall.SIGSTOP) },
			"warden-killed": func(g guarded) { _ = syscall.Kill(g.warden, syscall.SIGKILL) },
			"stopped":       func(g guarded) { _ = g.Process.Signal(syscall.SIGSTOP) },
		} {
			notes := filepath.Join(t.TempDir(), "notes")
			first := start(t, url, "run", how, "--", "job", "hard", notes, "first")
			first.writes(notes, "first")
			g := first.guarded()
			next := start(t, url, "run", how, "--", "job", "note", notes, "next")
			waits(t, url, how)
			before(g)
			began := time.Now()
			_ = first.Process.Kill()
			next.ends(0, soon)
			t.Logf("%s: the next job has ended after %v", how, time.Since(began))
			g.gone()
			lastIs(t, notes, "next")
		}
	})
}

// Promise: the guard gives back the ticket of its job, and no other: a successor that holds
// already goes on, and so does one who holds another part.
func TestAGuardGivesBackItsOwnTicketOnly(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, _ server, url string) {
		url += longTTL
		first := holds(t, url, "a")
		g := first.guarded()
		_ = first.Process.Signal(syscall.SIGSTOP) // it does not hear that the lock is taken away
		start(t, url, "evict", "--force", "a").ends(0, soon)
		next := holds(t, url, "a")
		before := holders(t, url, "a")
		_ = first.Process.Kill()
		g.gone()
		if after := holders(t, url, "a"); len(before) != 1 || len(after) != 1 || after[0].ID != before[0].ID {
			t.Errorf("%v holds, not %v as before", after, before)
		}
		_ = next.Process.Signal(syscall.SIGUSR1)
		next.ends(0, soon)

		one, other := holds(t, url, "--permits", "2", "s"), holds(t, url, "--permits", "2", "s")
		g = one.guarded()
		_ = one.Process.Kill()
		g.gone()
		if left := holders(t, url, "s"); len(left) != 1 || left[0].Owner != hostPid(other.Process.Pid) {
			t.Errorf("%v holds, not %d alone", left, other.Process.Pid)
		}
		_ = other.Process.Signal(syscall.SIGUSR1)
		other.ends(0, soon)
	})
}

// Promise: the time of --at-least is over before the guard gives anything back.
func TestAGuardGivesNothingBackBeforeItsTime(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL() + "?" + longTTL
	for atLeast, want := range map[string]int{"1h": 1, "1ms": 0} {
		r := holds(t, url, "--at-least", atLeast, atLeast)
		g := r.guarded()
		_ = r.Process.Kill()
		g.gone()
		if left := holders(t, url, atLeast); len(left) != want {
			t.Errorf("--at-least %s: %d hold it, not %d", atLeast, len(left), want)
		}
	}
}

// Promise: all locks of a job are given back.
func TestAGuardGivesEachLockBack(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL() + "?" + longTTL
	r := holds(t, url, "b", "a")
	g := r.guarded()
	_ = r.Process.Kill()
	g.gone()
	for _, name := range []string{"a", "b"} {
		if left := holders(t, url, name); len(left) != 0 {
			t.Errorf("%s: %v holds", name, left)
		}
	}
}

// Promise: a guard whose backend is away tries for a while, and ends.
func TestAGuardDoesNotWaitForTheBackend(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	r := holds(t, s.URL()+"?"+longTTL, "a")
	g := r.guarded()
	s.Pause()
	_ = r.Process.Kill()
	g.gone()
}

// Promise: the password of the URL is neither in the arguments nor in the environment of
// guard, warden and job, and the guard knows it.
func TestOnlyTheGuardLearnsThePassword(t *testing.T) {
	t.Parallel()
	const password = "correct-horse"
	s := redistest.Start(t)
	errtest.Must(s.Do("CONFIG", "SET", "requirepass", password))(t)
	url := strings.Replace(s.URL(), "redis://", "redis://:"+password+"@", 1) + "?" + longTTL
	c := start(t, "", "--url", url, "run", "a", "--", "job", "wait", "held")
	c.has("held")
	g := c.guarded()
	for what, pid := range map[string]int{"warden": g.warden, "guard": g.guard, "job": child(t, g.guard)} {
		for _, file := range []string{"cmdline", "environ"} {
			b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/" + file)
			if err != nil || bytes.Contains(b, []byte(password)) {
				t.Errorf("%s of the %s: %q (%v)", file, what, b, err)
			}
		}
	}
	_ = c.Process.Kill()
	g.gone()
	if left := holders(t, url, "a"); len(left) != 0 {
		t.Errorf("%v holds", left)
	}
}

// releasing is a command whose job has ended, and that waits for a backend that is paused to release its lock.
func releasing(t *testing.T, s *redistest.Server, args ...string) *started {
	t.Helper()
	r := start(t, s.URL()+"?ttl=10m", append(args, "-v", "-c", "touch runs; until test -e go; do sleep 0.02; done; exit 3")...)
	r.has("runs")
	g := r.guarded()
	s.Pause()
	r.touch("go")
	g.gone()
	return r
}

// Promise: a signal that comes when the job has ended ends no release: the lock is free at once, and the status is that
// of the job.
func TestASignalEndsNoRelease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for command, sig := range map[string]syscall.Signal{"run": syscall.SIGTERM, "run -s": syscall.SIGUSR1, "elect": syscall.SIGINT} {
		for try := 1; ; try++ {
			name := fmt.Sprint("lock", int(sig), "-", try)
			r := releasing(t, s, append(strings.Fields(command), name)...)
			_ = r.Process.Signal(sig)
			s.Resume()
			r.ends(3, soon)
			if strings.Contains(r.stderr(), "could not be given back") && try < 5 {
				continue // the machine was so slow that the time for the release was over
			}
			start(t, s.URL(), "run", "-n", name, "--", "true").ends(0, soon)
			break
		}
	}
}

// Promise: a second signal ends interlock also while it tries to keep a lock as long as --at-least says, which may take
// as long as the lease lasts.
func TestASecondSignalEndsARelease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	r := releasing(t, s, "run", "--at-least", "1h", "a")
	end := time.After(soon)
	for over := false; !over; {
		_ = r.Process.Signal(syscall.SIGINT)
		_ = r.Process.Signal(syscall.SIGTERM)
		select {
		case <-r.over:
			over = true
		case <-time.After(20 * time.Millisecond):
		case <-end:
			t.Fatalf("it goes on: %s", r.stderr())
		}
	}
	if code := r.ProcessState.ExitCode(); code != exitSignal+int(syscall.SIGINT) && code != exitSignal+int(syscall.SIGTERM) {
		t.Errorf("the status is %d after two signals: %s", code, r.stderr())
	}
	s.Resume()
}
