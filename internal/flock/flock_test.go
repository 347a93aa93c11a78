package flock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/errtest"
)

func TestOneAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first := errtest.Must(Open(t.Context(), path))(t)
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if f, err := Open(short, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while it is locked: got %v, %v, want the context's error", f, err)
	}
	got := make(chan error, 1)
	go func() {
		f, err := Open(t.Context(), path)
		if err == nil {
			err = f.Close()
		}
		got <- err
	}()
	if _, err := first.WriteString("x"); err != nil {
		t.Error("write under the lock:", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "x" {
		t.Errorf("read beside the lock: got %q, %v", text, err)
	}
	errtest.None(t, first.Close())
	if err := <-got; err != nil {
		t.Error("after it was closed:", err)
	}
}

func TestAnEndedContextNeverLocks(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if f, err := Open(ctx, filepath.Join(t.TempDir(), "lock")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v, want the context's error", f, err)
	}
	if _, err := Open(t.Context(), t.TempDir()); err == nil {
		t.Error("a folder: want an error")
	}
}
