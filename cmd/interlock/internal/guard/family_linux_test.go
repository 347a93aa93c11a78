package guard

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: a process that has got the pid of one of the job's, which has ended meanwhile, is
// not killed for it.
func TestAReusedPidIsNotKilled(t *testing.T) {
	me := os.Getpid()
	const parent = 1 << 30 // no pid is so large
	for _, c := range []struct {
		name string
		seen stat
		err  error
		dies bool
	}{
		{"a child of the parent", stat{state: 'S', parent: parent}, nil, true},
		{"an orphan that has become the guard's", stat{state: 'S', parent: me}, nil, true},
		{"a child of another", stat{state: 'S', parent: 1}, nil, false},
		{"one that has ended", stat{state: 'Z', parent: parent}, nil, false},
		{"one that is gone", stat{}, os.ErrNotExist, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			sleep := exec.Command("sleep", "1000")
			errtest.None(t, sleep.Start())
			defer sleep.Wait()
			defer sleep.Process.Kill()
			f := newFamily(unknown, false)
			f.stat = func(int) (stat, error) { return c.seen, c.err }
			if got := f.signalOne(sleep.Process.Pid, parent, me, unix.SIGKILL); got != c.dies {
				t.Errorf("it says %v, want %v", got, c.dies)
			}
			// Who is not dead stops; who is cannot.
			sleep.Process.Signal(unix.SIGSTOP)
			var ws syscall.WaitStatus
			errtest.Must(syscall.Wait4(sleep.Process.Pid, &ws, unix.WUNTRACED, nil))(t)
			if ws.Signaled() != c.dies {
				t.Errorf("killed: %v, want %v", ws.Signaled(), c.dies)
			}
		})
	}
}

// Promise: a job whose processes fork faster than they are found does not keep its guard from
// the next thing that is to be done.
func TestAFamilyWithoutEndIsGoneThroughForALimitedTime(t *testing.T) {
	f := newFamily(unknown, false)
	next := 1 << 30
	f.children = func(int) []int { next++; return []int{next} }
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.signal(unix.SIGTERM, now().Add(10*time.Millisecond))
	}()
	select {
	case <-done:
	case <-time.After(busy.Bound(30 * time.Second)):
		t.Fatal("it goes on")
	}
}

// Promise: a group is killed as a whole only if all of its members are the job's.
func TestAGroupIsOwnedIfOneOfTheJobHasBegunItOrItsSession(t *testing.T) {
	start := func(attr *syscall.SysProcAttr) int {
		c := exec.Command("sleep", "1000")
		c.SysProcAttr = attr
		errtest.None(t, c.Start())
		t.Cleanup(func() { c.Process.Kill(); c.Wait() })
		return c.Process.Pid
	}
	f := newFamily(unknown, false)
	with := start(nil)
	if f.owns(with, unix.Getpgrp()) {
		t.Error("the group of this process is taken for the job's")
	}
	session := start(&syscall.SysProcAttr{Setsid: true})
	if !f.owns(session, session) {
		t.Error("a group in a session that a child began is not taken for the job's")
	}
	leader := start(&syscall.SysProcAttr{Setpgid: true})
	member := start(&syscall.SysProcAttr{Setpgid: true, Pgid: leader})
	if f.owns(member, leader) {
		t.Error("a group whose leader is not known is taken for the job's")
	}
	note(f.killed, leader)
	if !f.owns(member, leader) {
		t.Error("a group that a child leads is not taken for the job's")
	}
	f.buried(leader)
	if f.owns(member, leader) {
		t.Error("a group whose leader was reaped is taken for the job's")
	}
	if f.owns(with, 0) || f.owns(with, 1) {
		t.Error("all processes are taken for a group of the job's")
	}
}
