//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver/exchange"
)

// Promise: what the dead have left is removed after a day, and nothing of the living.
func TestTidyRemovesWhatTheDeadHaveLeft(t *testing.T) {
	s, err := openStore(filepath.Join(t.TempDir(), "locks"), defaultMode)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	long := time.Now().Add(-2 * aDay)
	alive, dead, young := exchange.NewID(), exchange.NewID(), exchange.NewID()
	if _, err := s.Begin(t.Context(), exchange.Session{ID: alive}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{dead, young} {
		if err := os.WriteFile(s.dir.file(lives, id), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.sockets + "/open", Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	closed, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.sockets + "/closed", Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, path := range []string{s.dir.file(lives, alive), s.dir.file(lives, dead), s.dir.file(mailboxes, "open"), s.dir.file(mailboxes, "closed")} {
		if err := os.Chtimes(path, long, long); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Tidy(context.Background()); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{s.dir.file(lives, alive): true, s.dir.file(lives, dead): false,
		s.dir.file(lives, young): true, s.dir.file(mailboxes, "open"): true, s.dir.file(mailboxes, "closed"): false} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s: there is %v, want %v", path, err == nil, want)
		}
	}
}
