package filelock_test

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/busy"
)

// fork makes a child that has inherited all files and executes nothing, as some C libraries do. It
// ends with the test.
func fork(t *testing.T) {
	t.Helper()
	pid, errno := forkAndPause()
	if errno != 0 {
		t.Fatal(errno)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		_, _ = syscall.Wait4(pid, nil, 0, nil)
	})
}

// forkAndPause does not return in the child, where nothing of the runtime works.
//
//go:norace
//go:nosplit
func forkAndPause() (pid int, errno syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	for errno == 0 && n == 0 {
		syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
	return int(n), errno
}

// forks acquires the lock, forks, says the token and the child, and holds until it is killed.
const forks = "forks"

func init() {
	plays[forks] = func(ctx context.Context, l *interlock.Lock) error {
		lease, err := l.Acquire(ctx)
		if err != nil {
			return err
		}
		pid, errno := forkAndPause()
		if errno != 0 {
			return errno
		}
		fmt.Printf("%d\n%d\n", lease.Token(), pid)
		select {}
	}
}

// Promise: the lock of a parent that is killed stays as long as a forked child lives, for us as for
// flock(1), and ends with it.
func TestALockLivesAsLongAsAForkedChild(t *testing.T) {
	dir := newDir(t)
	cmd, says := start(t, forks, dir)
	busy.Until(t, "it forks", func() bool { return len(says.all()) == 2 })
	child := int(says.all()[1])
	killed := false
	kill := func() {
		if !killed {
			killed = true
			ok(t, syscall.Kill(child, syscall.SIGKILL))
		}
	}
	defer kill()
	ok(t, cmd.Process.Kill())
	_, _ = cmd.Process.Wait()
	l := open(t, dir).Mutex("x")
	_, err := l.TryAcquire(t.Context())
	is(t, err, interlock.ErrBusy)
	if !refused(t, "-n", filepath.Join(dir, "x")) {
		t.Error("flock gets the file")
	}
	kill()
	ok(t, acquire(t, l).Release())
}

// Promise: a child that was forked without exec does not keep a lock that its parent releases, nor
// the row.
func TestAForkedChildKeepsNoLockThatIsReleased(t *testing.T) {
	dir := newDir(t)
	l := open(t, dir).Mutex("x")
	lease := acquire(t, l)
	fork(t)
	_, err := open(t, dir).Mutex("x").TryAcquire(t.Context())
	is(t, err, interlock.ErrBusy)
	ok(t, lease.Release())
	if refused(t, "-n", filepath.Join(dir, "x")) {
		t.Error("the child has the lock")
	}
	ok(t, acquire(t, open(t, dir).Mutex("x")).Release())
}
