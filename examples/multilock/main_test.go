package main

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
	"github.com/interlock-go/interlock/internal/zktest"
)

func open(t *testing.T, urls ...string) (clients []*interlock.Client) {
	t.Helper()
	for _, url := range urls {
		c := errtest.Must(interlock.Open(t.Context(), url, interlock.TTL(5*time.Second)))(t)
		t.Cleanup(func() { c.Close() })
		clients = append(clients, c)
	}
	return clients
}

// under does f with work that finds each of the locks busy for others, so many times, and makes sure that nothing is
// left of them afterwards.
func under(t *testing.T, times int, f func(context.Context, work) error, locks ...*interlock.Lock) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	runs := 0
	errtest.None(t, f(ctx, func(ctx context.Context) error {
		runs++
		for _, l := range locks {
			if _, err := l.TryAcquire(t.Context()); !errors.Is(err, interlock.ErrBusy) {
				t.Errorf("%s while it is held: %v", l.Name(), err)
			}
		}
		return ctx.Err()
	}))
	if runs != times {
		t.Errorf("the work has run %d times", runs)
	}
	for _, l := range locks {
		errtest.None(t, errtest.Must(l.TryAcquire(t.Context()))(t).Release())
	}
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
			under(t, 3, func(ctx context.Context, do work) error { return multiLock(ctx, c[0], c[1], c[2], do) }, locks...)
		})
	}
}

// One of the three servers fails in the middle of the work, which goes on.
func TestRedLock(t *testing.T) {
	servers := []*redistest.Server{redistest.Start(t), redistest.Start(t), redistest.Start(t)}
	urls := []string{servers[0].URL(), servers[1].URL(), servers[2].URL()}
	clients, others := open(t, urls...), open(t, urls...)
	const ttl = 2 * time.Second
	other := errtest.Must(quorumOf(t.Context(), others, ttl))(t)
	defer other.Close()
	under(t, 1, func(ctx context.Context, do work) error {
		defer servers[1].Resume()
		return redLock(ctx, clients, ttl, func(ctx context.Context) error {
			servers[1].Pause()
			return do(ctx)
		})
	}, other.Mutex("lock"))
}

func TestMultiSharedLock(t *testing.T) {
	url := "zk://" + zktest.Start(t).Addr + "/locks"
	clients := open(t, url, url)
	locks := []*interlock.Lock{clients[1].Mutex("a"), clients[1].Mutex("b")}
	shared := func(ctx context.Context, do work) error {
		return multiSharedLock(ctx, clients[0], []string{"b", "a"}, do)
	}
	under(t, 1, shared, locks...)
	held := errtest.Must(locks[0].Acquire(t.Context()))(t)
	if _, err := interlock.All(clients[0].Mutex("b"), clients[0].Mutex("a")).With(interlock.Wait(0)).Acquire(t.Context()); !errors.Is(err, interlock.ErrBusy) {
		t.Errorf("one of both is held: %v", err)
	}
	errtest.None(t, held.Release())
	under(t, 1, shared, locks...)
}

func TestTheProgramRunsOnFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	errtest.None(t, run(t.Context(), []string{"sqlite:one.db", "sqlite:two.db", "sqlite:three.db"}))
}
