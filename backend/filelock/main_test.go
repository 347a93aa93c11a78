//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock_test

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/filelock"
	"github.com/interlock-go/interlock/internal/busy"
)

// patience bounds each wait of a test.
const patience = 20 * time.Second

func newDir(t *testing.T) string { return filepath.Join(t.TempDir(), "locks") }

func open(t *testing.T, dir string, opts ...interlock.ClientOption) *interlock.Client {
	t.Helper()
	c, err := interlock.Open(t.Context(), "file://"+dir, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}

func within(t *testing.T, d time.Duration, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(d); !f(); time.Sleep(d / 4000) {
		if time.Now().After(end) {
			t.Fatalf("not after %v: %s", d, what)
		}
	}
}

func acquire(t *testing.T, l *interlock.Lock) *interlock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(patience))
	defer cancel()
	lease, err := l.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// flock runs flock(1), which runs a shell that says so, and ends with its standard input. It
// returns how to end it.
func flock(t *testing.T, args ...string) (end func()) {
	t.Helper()
	if _, err := exec.LookPath("flock"); err != nil {
		t.Skip("flock(1) is not installed")
	}
	cmd := exec.Command("flock", append(args, "sh", "-c", "echo locked; read line")...)
	in, err := cmd.StdinPipe()
	ok(t, err)
	out, err := cmd.StdoutPipe()
	ok(t, err)
	ok(t, cmd.Start())
	data := make([]byte, 10)
	n, _ := out.Read(data)
	if !strings.HasPrefix(string(data[:n]), "locked") {
		t.Fatalf("flock %q: %v", args, cmd.Wait())
	}
	ended := false
	end = func() {
		if !ended {
			ended = true
			in.Close()
			_ = cmd.Wait()
		}
	}
	t.Cleanup(end)
	return end
}

// refused reports whether flock(1) does not get a lock at once.
func refused(t *testing.T, args ...string) bool {
	t.Helper()
	err := exec.Command("flock", append(args, "true")...).Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == 1 {
		return true
	}
	ok(t, err)
	return false
}
