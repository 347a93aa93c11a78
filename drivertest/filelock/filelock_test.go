//go:build unix

// Package filelock_test runs both suites on backend/filelock, whose module may not require this one.
package filelock_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
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
			"OtherUser":              "being mended",
			"Repeater":               "no network brings anything twice",
			"Stranger":               noServer,
			"Member":                 "being mended",
			"Impostor":               noServer,
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
	return drivertest.World{
		Open:         func(context.Context) (driver.Driver, error) { return filelock.New(dir) },
		URL:          "file://" + dir,
		Files:        func() []string { return files(dir) },
		LoseMessages: func() (resume func()) { return loseMessages(t, dir) },
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
