package main

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/redistest"
	"github.com/interlock-go/interlock/internal/zktest"
)

func open(t *testing.T, urls ...string) (clients []*interlock.Client) {
	t.Helper()
	for _, url := range urls {
		c, err := interlock.Open(t.Context(), url, interlock.TTL(5*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		clients = append(clients, c)
	}
	return clients
}

// busy is work that counts how often it runs, and finds each of the locks busy for others.
func busy(t *testing.T, runs *int, others ...*interlock.Lock) work {
	return func(ctx context.Context) error {
		*runs++
		for _, l := range others {
			if _, err := l.TryAcquire(t.Context()); !errors.Is(err, interlock.ErrBusy) {
				t.Errorf("%s while it is held: %v", l.Name(), err)
			}
		}
		return ctx.Err()
	}
}

// free checks that nothing is left of the locks.
func free(t *testing.T, locks ...*interlock.Lock) {
	t.Helper()
	for _, l := range locks {
		lease, err := l.TryAcquire(t.Context())
		if err != nil {
			t.Errorf("%s afterwards: %v", l.Name(), err)
			continue
		}
		if err := lease.Release(); err != nil {
			t.Error(err)
		}
	}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestMultiLock(t *testing.T) {
	dir := t.TempDir()
	for name, urls := range map[string][]string{
		"three servers":           {redistest.Start(t).URL(), redistest.Start(t).URL(), redistest.Start(t).URL()},
		"three kinds":             {redistest.Start(t).URL(), "sqlite:" + filepath.Join(dir, "locks.db"), "file:" + filepath.Join(dir, "locks")},
		"three names in one file": {"sqlite:" + filepath.Join(dir, "a.db"), "sqlite:" + filepath.Join(dir, "a.db"), "sqlite:" + filepath.Join(dir, "a.db")},
	} {
		t.Run(name, func(t *testing.T) {
			c, others := open(t, urls...), open(t, urls...)
			locks := []*interlock.Lock{others[0].Mutex("lock1"), others[1].Mutex("lock2"), others[2].Mutex("lock3")}
			runs := 0
			if err := multiLock(within(t), c[0], c[1], c[2], busy(t, &runs, locks...)); err != nil {
				t.Fatal(err)
			}
			if runs != 3 {
				t.Errorf("the work has run %d times", runs)
			}
			free(t, locks...)
		})
	}
}

// One of the three servers fails in the middle of the work, which goes on.
func TestRedLock(t *testing.T) {
	servers := []*redistest.Server{redistest.Start(t), redistest.Start(t), redistest.Start(t)}
	clients := open(t, servers[0].URL(), servers[1].URL(), servers[2].URL())
	others := open(t, servers[0].URL(), servers[1].URL(), servers[2].URL())
	const ttl = 2 * time.Second
	other, err := quorumOf(t.Context(), others, ttl)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	runs := 0
	err = redLock(within(t), clients, ttl, func(ctx context.Context) error {
		if runs == 0 {
			servers[1].Pause()
		}
		return busy(t, &runs, other.Mutex("lock"))(ctx)
	})
	servers[1].Resume()
	if err != nil {
		t.Fatal(err)
	}
	if runs != 1 {
		t.Errorf("the work has run %d times", runs)
	}
	free(t, other.Mutex("lock"))
}

func TestMultiSharedLock(t *testing.T) {
	url := "zk://" + zktest.Start(t).Addr + "/locks"
	clients := open(t, url, url)
	locks := []*interlock.Lock{clients[1].Mutex("a"), clients[1].Mutex("b")}
	runs := 0
	if err := multiSharedLock(within(t), clients[0], []string{"b", "a"}, busy(t, &runs, locks...)); err != nil {
		t.Fatal(err)
	}
	if runs != 1 {
		t.Errorf("the work has run %d times", runs)
	}
	held, err := locks[0].Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := interlock.All(clients[0].Mutex("b"), clients[0].Mutex("a")).With(interlock.Wait(0)).Acquire(t.Context()); !errors.Is(err, interlock.ErrBusy) {
		t.Errorf("one of both is held: %v", err)
	}
	if err := held.Release(); err != nil {
		t.Error(err)
	}
	free(t, locks...)
}

func TestTheProgramRunsOnFiles(t *testing.T) {
	dir := t.TempDir()
	var urls []string
	for _, name := range []string{"one", "two", "three"} {
		urls = append(urls, "sqlite:"+filepath.Join(dir, name+".db"))
	}
	if err := run(within(t), urls); err != nil {
		t.Fatal(err)
	}
}
