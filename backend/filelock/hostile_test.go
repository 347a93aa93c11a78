//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/filelock"
	"github.com/interlock-go/interlock/internal/busy"
)

// Promise: a process that is stopped keeps its lock, as every flock; the waiter goes on waiting, and
// gets it when that process goes on or dies.
func TestAStoppedHolderKeepsItsLock(t *testing.T) {
	dir := newDir(t)
	cmd, _ := start(t, hold, dir)
	l := open(t, dir).Mutex("x")
	busy.Until(t, "it stops between two transactions", func() bool { // in one it keeps all others from the row
		ok(t, cmd.Process.Signal(syscall.SIGSTOP))
		ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Second))
		defer cancel()
		_, err := l.TryAcquire(ctx)
		if errors.Is(err, interlock.ErrBusy) {
			return true
		}
		is(t, err, context.DeadlineExceeded)
		ok(t, cmd.Process.Signal(syscall.SIGCONT))
		return false
	})
	if !refused(t, "-n", filepath.Join(dir, "x")) {
		t.Error("flock gets the file")
	}
	ok(t, cmd.Process.Kill())
	ok(t, acquire(t, l).Release())
}

// Promise: what a child inherits does not keep a lock that was released, and a lock is not inherited.
func TestAChildInheritsNoLock(t *testing.T) {
	dir := newDir(t)
	c := open(t, dir)
	lease := acquire(t, c.Mutex("x"))
	child := exec.Command("sleep", "60")
	ok(t, child.Start())
	defer func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	}()
	ok(t, lease.Release())
	if refused(t, "-n", filepath.Join(dir, "x")) {
		t.Error("the child has the lock")
	}
}

// Promise: a file that was replaced or removed loses the lease, since others lock another file; the
// next one locks the new one.
func TestAFileThatIsReplacedLosesTheLease(t *testing.T) {
	for _, replaced := range []bool{true, false} {
		dir := newDir(t)
		c := open(t, dir, interlock.TTL(time.Second))
		lease := acquire(t, c.Mutex("x"))
		file := filepath.Join(dir, "x")
		ok(t, os.Remove(file))
		if replaced {
			ok(t, os.WriteFile(file, nil, 0o600))
		}
		select {
		case <-lease.Done():
			is(t, lease.Err(), interlock.ErrLost)
		case <-time.After(patience):
			t.Fatal("the lease is not lost")
		}
		_ = lease.Release()
		next := acquire(t, c.Mutex("x"))
		if !refused(t, "-n", file) {
			t.Error("the new file is not locked")
		}
		ok(t, next.Release())
	}
}

// Promise: if the directory is removed, leases are lost, calls say so, and a new client makes a new one.
func TestADirectoryThatIsRemoved(t *testing.T) {
	dir := newDir(t)
	c := open(t, dir, interlock.TTL(time.Second))
	lease := acquire(t, c.Mutex("x"))
	ok(t, busy.RemoveAll(dir))
	select {
	case <-lease.Done():
		is(t, lease.Err(), interlock.ErrLost)
	case <-time.After(patience):
		t.Fatal("the lease is not lost")
	}
	_, err := c.Mutex("x").TryAcquire(t.Context())
	if err == nil || !strings.Contains(err.Error(), "was removed") {
		t.Errorf("TryAcquire: %v", err)
	}
	ok(t, acquire(t, open(t, dir).Mutex("x")).Release())
}

// Promise: running clients use a directory that was replaced, or cleaned of .interlock, as new ones do: leases are
// lost, and waiters and new calls go on there, told at once.
func TestADirectoryThatIsReplacedIsUsedAgain(t *testing.T) {
	for what, replace := range map[string]func(dir string) error{
		"replaced": func(dir string) error { return errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o700)) },
		"cleaned":  func(dir string) error { return busy.RemoveAll(filepath.Join(dir, ".interlock")) },
	} {
		dir := newDir(t)
		a, b := open(t, dir, interlock.TTL(3*time.Second)), open(t, dir, interlock.TTL(3*time.Second))
		holder, waiter := open(t, dir, interlock.TTL(time.Hour)), open(t, dir, interlock.TTL(time.Hour)) // no heartbeat tells them
		lease := acquire(t, a.Mutex("x"))
		got := make(chan *interlock.Lease, 1)
		go func() { got <- acquire(t, b.Mutex("x")) }()
		busy.Until(t, "it waits", func() bool {
			if lease.Err() != nil {
				t.Fatal("before anything happens to the directory:", lease.Err())
			}
			q, err := a.Admin().Queue(t.Context(), "x")
			return err == nil && len(q.Waiters) == 1
		})
		ok(t, replace(dir))
		select {
		case <-lease.Done():
			is(t, lease.Err(), interlock.ErrLost)
		case <-time.After(patience):
			t.Fatalf("%s: the lease is not lost", what)
		}
		_ = lease.Release()
		ok(t, (<-got).Release())
		lease = acquire(t, holder.Mutex("y"))
		go func() { got <- acquire(t, waiter.Mutex("y")) }()
		busy.Until(t, "it waits there", func() bool {
			q, err := b.Admin().Queue(t.Context(), "y")
			return err == nil && len(q.Waiters) == 1
		})
		ok(t, lease.Release())
		ok(t, (<-got).Release())
	}
}

// Promise: a directory that was restored from a copy lets no two hold. In the copy are files of sessions that go on,
// which nobody locks.
func TestADirectoryThatIsRestoredFromACopyLetsNoTwoHold(t *testing.T) {
	dir := newDir(t)
	a, b := open(t, dir, interlock.TTL(time.Second)), open(t, dir, interlock.TTL(time.Second))
	lease := acquire(t, a.Mutex("x"))
	ok(t, acquire(t, b.Mutex("y")).Release())
	ok(t, exec.Command("cp", "-pR", dir, dir+".copy").Run())
	ok(t, os.Rename(dir, dir+".old"))
	ok(t, os.Rename(dir+".copy", dir))
	_, err := open(t, dir, interlock.TTL(time.Second)).Mutex("x").TryAcquire(t.Context())
	if err == nil && lease.Err() == nil {
		t.Fatal("a program that starts in the copy holds as well")
	}
	select {
	case <-lease.Done():
		is(t, lease.Err(), interlock.ErrLost)
	case <-time.After(patience):
		t.Fatal("the lease is not lost")
	}
	_ = lease.Release()
	for _, kind := range []func(*interlock.Client) *interlock.Lock{
		func(c *interlock.Client) *interlock.Lock { return c.Mutex("y") },
		func(c *interlock.Client) *interlock.Lock { return c.Semaphore("z", 1) },
	} {
		lease := acquire(t, kind(a))
		_, err := kind(b).TryAcquire(t.Context())
		is(t, err, interlock.ErrBusy)
		ok(t, lease.Err())
		ok(t, lease.Release())
	}
}

// Promise: a lease that has ended while its process was stopped is not told as an eviction: nobody has evicted.
func TestALeaseThatExpiresIsNotEvicted(t *testing.T) {
	dir := newDir(t)
	for range 5 {
		cmd, said := start(t, expire, dir+"?ttl=1s")
		ok(t, cmd.Process.Signal(syscall.SIGSTOP))
		c := open(t, dir)
		busy.Until(t, "it has expired", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			q, err := c.Admin().Queue(ctx, "x")
			if ctx.Err() != nil { // it was stopped while it changed the file, which stays locked
				ok(t, cmd.Process.Signal(syscall.SIGCONT))
				time.Sleep(time.Millisecond)
				ok(t, cmd.Process.Signal(syscall.SIGSTOP))
				return false
			}
			ok(t, err)
			return len(q.Holders) == 0 || q.Holders[0].Foreign // the file is still locked
		})
		ok(t, cmd.Process.Signal(syscall.SIGCONT))
		busy.Until(t, "it is told", func() bool { return len(said.all()) > 1 })
		if said.all()[1] != lost {
			t.Error("it is told that it was evicted")
		}
	}
}

// Promise: what is no lock file is refused with a clear error, and not waited for.
func TestStrangeFilesAreRefused(t *testing.T) {
	dir := newDir(t)
	c := open(t, dir)
	ok(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	ok(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link")))
	ok(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	for name, says := range map[string]string{"pipe": "not an ordinary file", "link": "symbolic link", "folder": "not an ordinary file"} {
		if _, err := c.Mutex(name).Acquire(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Promise: a directory where others could replace the files, or that cannot be written, is refused.
func TestPlacesThatAreRefused(t *testing.T) {
	open := filepath.Join(t.TempDir(), "open")
	ok(t, os.Mkdir(open, 0o700))
	ok(t, os.Chmod(open, 0o777))
	file := filepath.Join(t.TempDir(), "file")
	ok(t, os.WriteFile(file, nil, 0o600))
	for path, says := range map[string]string{open: "every user can write", file: "not a directory", "/proc/locks/x": "not a directory", "/proc/x": ""} {
		d, err := filelock.New(path)
		if err == nil {
			d.Close()
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// Promise: names with and without slashes, long ones and those that begin with a dot have files of
// their own.
func TestNamesHaveFilesOfTheirOwn(t *testing.T) {
	dir := newDir(t)
	c := open(t, dir)
	long := strings.Repeat("a", 200) + "/" + strings.Repeat("b", 200)
	names := []string{"foo", "foo/bar", "foo%2Fbar", ".hidden", ".interlock", long, long[1:]}
	for _, name := range names {
		lease, err := c.Mutex(name).TryAcquire(t.Context())
		ok(t, err)
		defer lease.Release()
	}
	n := 0
	for _, err := range c.Admin().Queues(t.Context(), "") {
		ok(t, err)
		n++
	}
	if n != len(names) {
		t.Errorf("%d of %d are listed", n, len(names))
	}
}

// Promise: a row that a power loss has emptied harms nothing, and one that is damaged is named.
func TestRowsThatAreDamaged(t *testing.T) {
	dir := newDir(t)
	c := open(t, dir, interlock.TTL(time.Second))
	lease := acquire(t, c.Mutex("x"))
	token := lease.Token()
	ok(t, lease.Release())
	row := filepath.Join(dir, ".interlock/queues/x")
	ok(t, os.Truncate(row, 0))
	lease = acquire(t, c.Mutex("x"))
	if lease.Token() <= token {
		t.Errorf("token %d after %d", lease.Token(), token)
	}
	ok(t, lease.Release())
	ok(t, os.WriteFile(row, bytes.Repeat([]byte("garbage "), 512), 0o600))
	_, err := c.Mutex("x").TryAcquire(t.Context())
	if err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("%v", err)
	}
}

// Promise: the doctor finds nothing wrong with a new directory.
func TestCheck(t *testing.T) {
	c := open(t, newDir(t))
	for _, f := range c.Admin().Check(t.Context()) {
		if f.Status != "ok" {
			t.Errorf("%+v", f)
		}
	}
}

// Promise: a process that is stopped in a transaction keeps calls waiting, which end with their contexts.
func TestAStoppedTransaction(t *testing.T) {
	dir := newDir(t)
	c := open(t, dir)
	ok(t, acquire(t, c.Mutex("x")).Release())
	row, err := os.Open(filepath.Join(dir, ".interlock/queues/x"))
	ok(t, err)
	ok(t, syscall.Flock(int(row.Fd()), syscall.LOCK_EX))
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.Mutex("x").Acquire(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Acquire: %v", err)
	}
	got := make(chan *interlock.Lease, 1)
	go func() { got <- acquire(t, c.Mutex("x")) }()
	row.Close()
	ok(t, (<-got).Release())
}
