//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/busy"
)

// Promise: a lock that we hold keeps flock(1) out, and one that flock(1) holds keeps us out.
func TestFlockAndWeExcludeOneAnother(t *testing.T) {
	dir := newDir(t)
	l := open(t, dir).Mutex("backup")
	file := filepath.Join(dir, "backup")
	lease := acquire(t, l)
	if !refused(t, "-n", file) || !refused(t, "-s", "-n", file) || !refused(t, "-w", "0.1", file) {
		t.Error("flock gets the file that we have locked")
	}
	ok(t, lease.Release())
	end := flock(t, file)
	_, err := l.TryAcquire(t.Context())
	is(t, err, interlock.ErrBusy)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = l.Acquire(short)
	is(t, err, context.DeadlineExceeded)
	end()
	lease, err = l.TryAcquire(t.Context())
	ok(t, err)
	ok(t, lease.Release())
	if refused(t, "-n", file) {
		t.Error("flock does not get the file that we have unlocked")
	}
}

// Promise: whoever waits behind flock(1) gets the lock when that ends, or unlocks, in the order of Join.
func TestWaitersBehindFlockAreServedInOrder(t *testing.T) {
	dir := newDir(t)
	a, b := open(t, dir), open(t, dir)
	file := filepath.Join(dir, "x")
	for _, name := range []string{"ends", "unlocks"} {
		end := flock(t, file)
		if name == "unlocks" {
			end()
			f, err := os.Open(file)
			ok(t, err)
			defer f.Close()
			lock := exec.Command("flock", "3")
			lock.ExtraFiles = []*os.File{f}
			ok(t, lock.Run())
			end = func() {
				unlock := exec.Command("flock", "-u", "3")
				unlock.ExtraFiles = []*os.File{f}
				ok(t, unlock.Run())
			}
		}
		order := make(chan string, 2)
		var all sync.WaitGroup
		for i, c := range []*interlock.Client{a, b} {
			all.Go(func() {
				lease := acquire(t, c.Mutex("x"))
				order <- fmt.Sprint(i)
				ok(t, lease.Release())
			})
			busy.Until(t, "it waits", func() bool {
				q, err := b.Admin().Queue(t.Context(), "x")
				ok(t, err)
				return len(q.Waiters) == i+1
			})
		}
		end()
		all.Wait()
		if first, second := <-order, <-order; first+second != "01" {
			t.Errorf("%s: served in the order %s, %s", name, first, second)
		}
	}
}

// Promise: readers share the file with flock -s, and writers do not; a Downgrade lets flock -s in.
func TestReadersShareWithFlock(t *testing.T) {
	dir := newDir(t)
	rw := open(t, dir).RWMutex("data")
	file := filepath.Join(dir, "data")
	end := flock(t, "-s", file)
	reader, err := rw.Reader().TryAcquire(t.Context())
	ok(t, err)
	_, err = rw.Writer().TryAcquire(t.Context())
	is(t, err, interlock.ErrBusy)
	end()
	if !refused(t, "-n", file) || refused(t, "-s", "-n", file) {
		t.Error("a reader locks the file exclusively, or not at all")
	}
	ok(t, reader.Release())
	writer := acquire(t, rw.Writer())
	if !refused(t, "-s", "-n", file) {
		t.Error("a writer lets flock -s in")
	}
	ok(t, writer.Downgrade(t.Context()))
	if refused(t, "-s", "-n", file) || !refused(t, "-n", file) {
		t.Error("a writer that has become a reader locks the file exclusively, or not at all")
	}
	ok(t, writer.Release())
}

// Promise: a counter in a file that we and flock(1) increment ends exact.
func TestCountingWithFlock(t *testing.T) {
	dir := newDir(t)
	a, b := open(t, dir), open(t, dir)
	counter := filepath.Join(t.TempDir(), "counter")
	ok(t, os.WriteFile(counter, []byte("0"), 0o600))
	const times = 40
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			script := fmt.Sprintf(`for i in $(seq %d); do flock %s sh -c 'n=$(cat %s); echo $((n+1)) > %[3]s'; done`, times, filepath.Join(dir, "c"), counter)
			if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	for _, c := range []*interlock.Client{a, b} {
		all.Go(func() {
			for range times {
				lease := acquire(t, c.Mutex("c"))
				text, err := os.ReadFile(counter)
				ok(t, err)
				n, err := strconv.Atoi(strings.TrimSpace(string(text)))
				ok(t, err)
				ok(t, os.WriteFile(counter, []byte(fmt.Sprint(n+1)), 0o600))
				ok(t, lease.Release())
			}
		})
	}
	all.Wait()
	if text, err := os.ReadFile(counter); err != nil || strings.TrimSpace(string(text)) != fmt.Sprint(4*times) {
		t.Errorf("the counter is %q, %v, want %d", text, err, 4*times)
	}
}

// Promise: a program that has locked the file is shown, with its pid, and so is a reader of ours beside it.
func TestAnotherProgramIsShown(t *testing.T) {
	dir := newDir(t)
	c := open(t, dir)
	end := flock(t, filepath.Join(dir, "backup"))
	var names []string
	for q, err := range c.Admin().Queues(t.Context(), "") {
		ok(t, err)
		names = append(names, q.Name)
		if len(q.Holders) != 1 || !q.Holders[0].Foreign || !strings.Contains(q.Holders[0].Owner, "another program, pid ") {
			t.Errorf("%+v", q)
		}
	}
	if len(names) != 1 || names[0] != "backup" {
		t.Errorf("listed: %q", names)
	}
	end()
	lease := acquire(t, c.Mutex("backup", interlock.Note("why")))
	defer lease.Release()
	q, err := open(t, dir).Admin().Queue(t.Context(), "backup")
	ok(t, err)
	if len(q.Holders) != 1 || q.Holders[0].Foreign || q.Holders[0].Note != "why" {
		t.Errorf("%+v", q)
	}
}

// Promise: another program cannot be asked to leave: that is an error, which says who it is. When it has left, it is
// gone.
func TestAnotherProgramCannotBeAsked(t *testing.T) {
	dir := newDir(t)
	c := open(t, dir)
	end := flock(t, filepath.Join(dir, "backup"))
	q, err := c.Admin().Queue(t.Context(), "backup")
	ok(t, err)
	id := q.Holders[0].ID
	ask := map[string]func() error{
		"revoke":          func() error { return c.Admin().Revoke(t.Context(), "backup", id) },
		"evict":           func() error { return c.Admin().Evict(t.Context(), "backup", id, false) },
		"evict, by force": func() error { return c.Admin().Evict(t.Context(), "backup", id, true) },
	}
	for what, once := range ask {
		if err := once(); !errors.Is(err, interlock.ErrInvalid) || !strings.Contains(err.Error(), q.Holders[0].Owner+", has locked") {
			t.Errorf("%s: %v", what, err)
		}
	}
	end()
	for what, once := range ask {
		if err := once(); !errors.Is(err, interlock.ErrLost) {
			t.Errorf("%s of one that has left: %v", what, err)
		}
	}
}

// Promise: a waiter behind another program rests: it looks a few times a second.
func TestAWaiterBehindFlockRests(t *testing.T) {
	dir := newDir(t)
	c := open(t, dir)
	end := flock(t, filepath.Join(dir, "x"))
	got := make(chan *interlock.Lease, 1)
	go func() { got <- acquire(t, c.Mutex("x")) }()
	busy.Until(t, "it waits", func() bool {
		q, err := c.Admin().Queue(t.Context(), "x")
		ok(t, err)
		return len(q.Waiters) == 1
	})
	time.Sleep(100 * time.Millisecond)
	before := c.Admin().Exchanges()
	began := time.Now()
	time.Sleep(2 * time.Second)
	if n, most := c.Admin().Exchanges()-before, uint64(4*time.Since(began).Seconds()); n > most {
		t.Errorf("%d exchanges in %v", n, time.Since(began))
	}
	end()
	ok(t, (<-got).Release())
}
