//go:build unix

// Package filelock_test runs both suites on backend/filelock, whose module may not require this one.
package filelock_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/filelock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/drivertest/primitives"
)

func TestMain(m *testing.M) { drivertest.Main(m) }

// Promise: what package driver says of a backend, but for what a lock of the kernel cannot do.
func TestConformance(t *testing.T) {
	drivertest.Run(t, drivertest.Backend{
		World: world,
		TTL:   time.Second / 2,
		Small: true,
		Unsupported: map[string]string{
			"HangingBackend":         "a file does not hang: a process that is stopped in a transaction is TestAStoppedTransaction",
			"LateAnswers":            late,
			"LostAnswers":            late,
			"SignalsBeforeTheAnswer": late,
			"ProcessesThatDie":       "a process that is stopped keeps its lock, and perhaps a transaction",
			"StoppedProcess":         stopped,
			"Repeater":               "no network brings anything twice",
			"Stranger":               noServer,
			"Impostor":               noServer,
			"SilentHost":             noServer,
			"Deaf":                   noServer,
			"Mute":                   noServer,
			"NoRights":               "who may not open the files opens nothing: OtherUser",
			"RenewInAFewExchanges":   "each queue has a row of its own, and a heartbeat writes those of all that it keeps",
		},
	})
}

// Promise: package interlock keeps its promises over it.
func TestPrimitives(t *testing.T) {
	primitives.Run(t, primitives.Backend{World: world, TTL: time.Second / 2, Unsupported: map[string]string{"StoppedHolder": stopped}})
}

const (
	noServer = "there is no server"
	late     = "there is nothing between a client and its files that could be late"
	stopped  = "the kernel keeps the lock of a process that is stopped, and other programs rely on that"
)

func world(t testing.TB) drivertest.World {
	dir := filepath.Join(t.TempDir(), "locks")
	link := dir + "-link"
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	var opened atomic.Int32 // clients of two paths share no more than those of two processes
	return drivertest.World{
		Open: func(context.Context) (driver.Driver, error) {
			if opened.Add(1)%2 == 0 {
				return filelock.New(link)
			}
			return filelock.New(dir)
		},
		URL:          "file://" + dir,
		Files:        func() []string { return files(dir) },
		LoseMessages: func() (resume func()) { return loseMessages(t, dir) },
		LockQueue: func(queue string) (unlock func()) {
			row, err := os.Open(filepath.Join(dir, ".interlock/queues", queue))
			if err == nil {
				err = syscall.Flock(int(row.Fd()), syscall.LOCK_EX)
			}
			if err != nil {
				t.Fatal(err)
			}
			return func() { row.Close() }
		},
		Damages: func(name string) []drivertest.Damage { return damages(dir, name) },
		Shared: func(t testing.TB) drivertest.Shared {
			folder := drivertest.SharedFolder(t)
			return drivertest.Shared{Folder: folder, Open: func(ctx context.Context) (driver.Driver, error) {
				return drivertest.OpenURL(ctx, "file://"+folder+"?mode=660")
			}}
		},
		Unreachable: func(context.Context) error {
			d, err := filelock.New(filepath.Join(t.TempDir(), "missing", "locks"))
			if err == nil {
				d.Close()
			}
			return err
		},
	}
}

// files are the regular ones below a directory.
func files(dir string) (all []string) {
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, _ error) error {
		if e != nil && e.Type().IsRegular() {
			all = append(all, path)
		}
		return nil
	})
	return all
}

// loseMessages hides the sockets to which messages go.
func loseMessages(t testing.TB, dir string) (resume func()) {
	sockets, err := filepath.Glob(filepath.Join(dir, ".interlock/mail/*"))
	if err != nil || len(sockets) == 0 {
		t.Fatalf("no sockets: %v", err)
	}
	for _, path := range sockets {
		if err := os.Rename(path, path+".lost"); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		for _, path := range sockets {
			if err := os.Rename(path+".lost", path); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// damages are what can be put into each file of a name, and into its place.
func damages(dir, name string) (all []drivertest.Damage) {
	garbage := bytes.Repeat([]byte("garbage "), 512)
	for _, file := range []string{name, ".interlock/queues/" + name, ".interlock/cells/" + name} {
		path := filepath.Join(dir, file)
		cut := func(size int64) func() error { return func() error { return os.Truncate(path, size) } }
		instead := func(put func() error) func() error {
			return func() error { return errors.Join(os.Remove(path), put()) }
		}
		for what, do := range map[string]func() error{
			"is empty":            cut(0),
			"is cut":              cut(100),
			"is long, with holes": cut(1 << 40),
			"is garbage":          func() error { return os.WriteFile(path, garbage, 0o600) },
			"is zeros":            func() error { return os.WriteFile(path, make([]byte, 4096), 0o600) },
			"has bits changed": func() error {
				data, err := os.ReadFile(path)
				for i := range data {
					data[i] ^= 1 << (i % 8)
				}
				return errors.Join(err, os.WriteFile(path, data, 0o600))
			},
			"is a folder": instead(func() error { return os.Mkdir(path, 0o700) }),
			"is a pipe":   instead(func() error { return exec.Command("mkfifo", path).Run() }),
			"is a link":   instead(func() error { return os.Symlink("/etc/passwd", path) }),
			"is gone":     instead(func() error { return nil }),
		} {
			all = append(all, drivertest.Damage{What: file + " " + what, Do: do})
		}
	}
	slices.SortFunc(all, func(a, b drivertest.Damage) int { return strings.Compare(a.What, b.What) })
	return all
}
