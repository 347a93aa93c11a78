//go:build unix

package sqlitelock_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/busy"
)

// Whoever holds, waits or follows is told that the file was removed or replaced, as a new caller is, and
// not only when the wait ends. So it is if only what lies beside the file is removed: then nobody else holds before the
// holder has been told, since the file is the same.
func TestARemovedFileIsToldToAll(t *testing.T) {
	for what, remove := range map[string]func(path string) error{
		"removed": os.Remove,
		"replaced": func(path string) error {
			return errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, nil, 0o600))
		},
		"folder beside it removed": func(path string) error { return busy.RemoveAll(path + "-interlock") },
		"folder beside it moved":   func(path string) error { return os.Rename(path+"-interlock", path+".old") },
		"folder beside it replaced by a copy": func(path string) error {
			dir := path + "-interlock"
			return errors.Join(exec.Command("cp", "-pR", dir, path+".copy").Run(), os.Rename(dir, path+".old"), os.Rename(path+".copy", dir))
		},
		"turn removed":        func(path string) error { return os.Remove(path + "-interlock/turn") },
		"removed with folder": func(path string) error { return busy.RemoveAll(filepath.Dir(path)) },
		"folder replaced": func(path string) error {
			return errors.Join(os.Rename(filepath.Dir(path), filepath.Dir(path)+".old"), os.Mkdir(filepath.Dir(path), 0o700))
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "locks", "locks.db")
			noError(t, os.Mkdir(filepath.Dir(path), 0o700))
			client := func() *interlock.Client {
				c, err := interlock.Open(t.Context(), "sqlite:"+path, interlock.TTL(10*time.Second)) // a busy machine stands still for seconds
				noError(t, err)
				t.Cleanup(func() { c.Close() })
				return c
			}
			a, b := client(), client()
			ctx := within(t)
			lease, err := a.Mutex("m").Acquire(ctx)
			if err == nil {
				err = a.Barrier("b").Set(ctx)
			}
			if err == nil {
				_, err = a.Latch("l").Set(ctx, 1)
			}
			noError(t, err)
			told := map[string]chan error{}
			for what, wait := range map[string]func(context.Context) error{
				"the holder": func(context.Context) error { <-lease.Done(); return lease.Err() },
				"a waiter":   func(ctx context.Context) error { _, err := b.Mutex("m").Acquire(ctx); return err },
				"a second one": func(ctx context.Context) error {
					_, err := b.Mutex("m", interlock.StrictOrder()).Acquire(ctx)
					return err
				},
				"Barrier.Wait": b.Barrier("b").Wait,
				"Latch.Wait":   b.Latch("l").Wait,
				"Follow": func(ctx context.Context) error {
					for _, err := range b.Admin().Follow(ctx, "m") {
						if err != nil {
							return err
						}
					}
					return nil
				},
			} {
				came := make(chan error, 1)
				told[what] = came
				go func() { came <- wait(ctx) }()
			}
			for q, err := range a.Admin().Follow(ctx, "m") {
				noError(t, err)
				if len(q.Waiters) == 2 {
					break
				}
			}
			began := time.Now()
			noError(t, remove(path))
			if strings.Contains(what, "beside") {
				if next, err := client().Mutex("m").Acquire(ctx); err != nil || lease.Err() == nil {
					t.Errorf("the next one is granted after %v, %v, and the holder is told: %v", time.Since(began), err, lease.Err())
				} else if err := next.Release(); err != nil {
					t.Error(err)
				}
			}
			for what, came := range told {
				err := <-came
				t.Logf("%s after %v: %v", what, time.Since(began).Round(time.Millisecond), err)
				if err == nil || !strings.Contains(err.Error(), "removed or replaced") || ctx.Err() != nil {
					t.Errorf("%s after %v: %v", what, time.Since(began), err)
				}
			}
		})
	}
}
